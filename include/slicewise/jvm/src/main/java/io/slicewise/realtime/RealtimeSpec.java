package io.slicewise.realtime;

import com.fasterxml.jackson.databind.JsonNode;
import io.slicewise.records.Spec;
import io.slicewise.wire.RedisAddress;
import io.slicewise.wire.StoreFields;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/** What the real-time lane is bound to, of the JSON that `spec.py` makes. */
final class RealtimeSpec {
  final RedisAddress address;
  final String runId;
  final String replicationId;
  final long storeId;
  final Long deploymentVersion;
  final String run;

  /** The run that this one takes over from, of the same server run; null: none. */
  final String after;

  final String source;
  final String topicId;
  final String metadataKey;
  final String statusKey;
  final Script pending;
  final Script list;

  /** Most pending events of an entity. */
  final long bound;

  /** What one field of it takes. */
  final long fieldEvents;

  final long fieldBytes;
  final long ahead;
  final int queue;
  final long timeoutMs;
  final long patienceMs;
  final Set<Integer> partitions = new TreeSet<>();
  final List<RealtimeUnit> units = new ArrayList<>();

  /** A script and the name by which a node knows it. */
  record Script(String text, String sha) {
    static Script of(String text) {
      try {
        byte[] digest = MessageDigest.getInstance("SHA-1")
            .digest(text.getBytes(StandardCharsets.UTF_8));
        return new Script(text, HexFormat.of().formatHex(digest));
      } catch (NoSuchAlgorithmException never) {
        throw new IllegalStateException(never);
      }
    }
  }

  private RealtimeSpec(JsonNode given) {
    address = RedisAddress.of(given.get("redis_url").asText());
    runId = given.get("run_id").asText();
    replicationId = given.get("replication_id").asText();
    storeId = given.get("generation").asLong();
    deploymentVersion = given.get("epoch").isNull() ? null : (Long) given.get("epoch").asLong();
    run = given.get("run").asText();
    after = given.get("after").asText(null);
    source = given.get("source").asText();
    topicId = given.get("topic_id").asText();
    metadataKey = given.get("marks_key").asText();
    statusKey = given.get("status_key").asText();
    pending = Script.of(given.get("pending_script").asText());
    list = Script.of(given.get("list_script").asText());
    bound = given.get("bound").asLong();
    fieldEvents = given.get("field_events").asLong();
    fieldBytes = given.get("field_bytes").asLong();
    ahead = given.get("ahead").asLong();
    queue = given.get("queue").asInt();
    timeoutMs = given.get("timeout_ms").asLong();
    patienceMs = given.get("patience_ms").asLong();
    given.get("partitions").forEach(partition -> partitions.add(partition.asInt()));
    given.get("units").forEach(unit -> units.add(RealtimeUnit.of(unit, storeId, topicId)));
  }

  static RealtimeSpec of(String json) {
    return new RealtimeSpec(Spec.parsed(json));
  }

  /** The committed offsets' field in the metadata. */
  String committedField(int partition) {
    return StoreFields.committed(topicId, partition);
  }
}
