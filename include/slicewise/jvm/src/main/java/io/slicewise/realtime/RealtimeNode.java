package io.slicewise.realtime;

import io.slicewise.wire.Commands;
import io.slicewise.wire.Failure;
import io.slicewise.wire.RedisConnection;
import io.slicewise.wire.Replies;
import io.slicewise.wire.StoreFields;
import java.io.Closeable;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A connection to the one server run that the real-time lane was planned for: another server run,
 * store id or deployment version is refused where it is met.
 */
final class RealtimeNode implements Closeable {
  private final RealtimeSpec spec;
  private final RedisConnection connection;
  private Map<Integer, Long> committedOffsets;

  private RealtimeNode(RealtimeSpec spec, RedisConnection connection) {
    this.spec = spec;
    this.connection = connection;
  }

  /** IOException where nobody answers; Failure where another server run does. */
  static RealtimeNode open(RealtimeSpec spec) throws IOException {
    RealtimeNode node = new RealtimeNode(spec, RedisConnection.open(spec.address, spec.timeoutMs));
    try {
      node.hello();
      return node;
    } catch (IOException | RuntimeException failed) {
      node.close();
      throw failed;
    }
  }

  private void hello() throws IOException {
    Commands commands = new Commands().command("INFO");
    scripts(commands);
    requestMetadata(commands, spec.partitions);
    List<Object> replies = connection.exchange(commands);
    Map<String, String> info = info(checked(replies.get(0)));
    if (!spec.runId.equals(info.get("run_id"))
        || !spec.replicationId.equals(info.get("master_replid"))) {
      throw new Failure(
          "the store is in another server run than the real-time lane was planned for",
          spec.address + ": run id " + info.get("run_id"),
          "run id " + spec.runId,
          "the real-time lane starts again from the metadata by itself");
    }
    replies.forEach(this::checked);
    committedOffsets = committedOffsets(replies.get(3), spec.partitions);
  }

  /** Of the partitions that the real-time lane was planned with, when the connection was opened. */
  Map<Integer, Long> committedOffsets() {
    return committedOffsets;
  }

  private void scripts(Commands commands) {
    for (RealtimeSpec.Script script : List.of(spec.pending, spec.list)) {
      commands.begin(3).word("SCRIPT").word("LOAD")
          .word(script.text().getBytes(StandardCharsets.UTF_8));
    }
  }

  private static Map<String, String> info(Object raw) {
    Map<String, String> fields = new HashMap<>();
    for (String line : new String((byte[]) raw, StandardCharsets.UTF_8).split("\r?\n")) {
      int colon = line.indexOf(':');
      if (colon > 0) {
        fields.put(line.substring(0, colon), line.substring(colon + 1));
      }
    }
    return fields;
  }

  List<Object> exchange(Commands commands) throws IOException {
    return connection.exchange(commands);
  }

  /** After somebody made the node forget them. */
  void loadScripts() throws IOException {
    Commands commands = new Commands();
    scripts(commands);
    connection.exchange(commands).forEach(this::checked);
  }

  /** Asks the metadata: the server run, and the committed offsets of these partitions. */
  void requestMetadata(Commands commands, Set<Integer> partitions) {
    commands.begin(4 + partitions.size()).word("HMGET").word(spec.metadataKey);
    commands.word(StoreFields.STORE_ID).word(StoreFields.DEPLOYMENT_VERSION);
    partitions.forEach(partition -> commands.word(spec.committedField(partition)));
  }

  /**
   * The reply to that: partition to committed offsets. Failure where the metadata is of another
   * server run.
   */
  Map<Integer, Long> committedOffsets(Object reply, Set<Integer> partitions) {
    List<?> values = (List<?>) checked(reply);
    Long storeId = number(values.get(0));
    if (storeId == null || storeId != spec.storeId) {
      throw new Failure(
          "the store was emptied: it has "
              + (storeId == null ? "no metadata" : "store id " + storeId),
          spec.address.toString(),
          "store id " + spec.storeId,
          "the real-time lane starts again from the metadata by itself");
    }
    if (spec.deploymentVersion != null && !spec.deploymentVersion.equals(number(values.get(1)))) {
      throw new Failure(
          "another deployment stands: version " + number(values.get(1)),
          spec.address.toString(),
          "deployment version " + spec.deploymentVersion,
          "the real-time lane starts again with what is deployed by itself");
    }
    Map<Integer, Long> committedOffsets = new HashMap<>();
    int at = 2;
    for (Integer partition : partitions) {
      Long committedOffset = number(values.get(at++));
      committedOffsets.put(partition, committedOffset == null ? 0L : committedOffset);
    }
    return committedOffsets;
  }

  private static Long number(Object raw) {
    return raw == null ? null : Long.valueOf(new String((byte[]) raw, StandardCharsets.ISO_8859_1));
  }

  /** A reply that is no error. */
  Object checked(Object reply) {
    if (reply instanceof Replies.Failed refused) {
      throw refusal(refused, spec.address.toString());
    }
    return reply;
  }

  static Failure refusal(Replies.Failed refused, String where) {
    return new Failure(
        "the store refuses a command: " + refused.message(),
        where,
        "keys as slicewise writes them, and room for them",
        "see the store's log; the real-time lane starts again from the metadata by itself");
  }

  @Override
  public void close() {
    connection.close();
  }
}
