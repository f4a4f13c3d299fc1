package io.slicewise.realtime;

import com.fasterxml.jackson.databind.JsonNode;
import io.slicewise.wire.EntityTag;
import io.slicewise.wire.Member;
import io.slicewise.wire.StoreFields;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Of a unit all that its rows' keys, fields and expiry follow from; nothing of what is made of
 * them.
 */
final class RealtimeUnit {
  private static final long SECOND_US = 1_000_000L;
  private static final long MOST_SCORE = (1L << 53) - 1;
  private static final long LIST_SLACK_S = 60;

  /** What an event list keeps; null for a unit with slices. */
  record Keeps(long rangeUs, long rows, long lateUs, long most) {}

  final String name;
  final String keep;
  final List<String> entity;
  final List<String> inputs;
  final Keeps list;
  private final long storeId;
  private final String topicId;
  private final Map<Integer, Long> start;
  private final long sliceUs;
  private final long retentionUs;
  private final EntityTag tag;
  private final Member member;

  private RealtimeUnit(JsonNode given, long storeId, String topicId) {
    this.storeId = storeId;
    this.topicId = topicId;
    name = given.get("name").asText();
    keep = given.get("keep").asText();
    start = new HashMap<>();
    given.get("start").properties()
        .forEach(e -> start.put(Integer.valueOf(e.getKey()), e.getValue().asLong()));
    sliceUs = given.get("slice_us").asLong();
    retentionUs = given.get("retention_us").asLong();
    entity = texts(given.get("entity"), "column");
    inputs = texts(given.get("inputs"), "column");
    tag =
        new EntityTag(
            texts(given.get("entity"), "name"), texts(given.get("entity"), "type"),
            given.get("spread").asBoolean());
    member = new Member(topicId, texts(given.get("inputs"), "type"));
    JsonNode kept = given.get("list");
    list =
        kept.isNull()
            ? null
            : new Keeps(
                kept.get("range_us").asLong(),
                kept.get("rows").asLong(),
                kept.get("late_us").asLong(),
                kept.get("most").asLong());
  }

  static RealtimeUnit of(JsonNode given, long storeId, String topicId) {
    return new RealtimeUnit(given, storeId, topicId);
  }

  private static List<String> texts(JsonNode columns, String member) {
    List<String> texts = new ArrayList<>();
    columns.forEach(column -> texts.add(column.get(member).asText()));
    return texts;
  }

  /** Whether the row is of the unit's backfill, which lies below its start offsets. */
  boolean starts(int partition, long offset) {
    return offset >= start.getOrDefault(partition, 0L);
  }

  byte[] tag(Object[] values, int partition) {
    return tag.of(values, partition);
  }

  byte[] member(long timeUs, int partition, long offset, Object[] values) {
    return member.of(timeUs, partition, offset, values);
  }

  /** The partition as the names of fields end with it. */
  byte[] topicPartition(int partition) {
    return ascii(topicId + ":" + partition);
  }

  byte[] appliedField(int partition) {
    return ascii(StoreFields.applied(topicId, partition));
  }

  byte[] skip(int partition) {
    return ascii(StoreFields.skipped(topicId, partition));
  }

  static long score(long timeUs) {
    return Math.max(-MOST_SCORE, Math.min(MOST_SCORE, timeUs));
  }

  /** Second at which no read reaches the slice of this time any more; 0: never. */
  long expiry(long timeUs) {
    return retentionUs == 0 ? 0
        : second((Math.floorDiv(timeUs, sliceUs) + 1) * sliceUs + retentionUs);
  }

  /** The same of a list whose newest event is of this time. */
  long listExpiry(long timeUs) {
    return list.rows() > 0 ? 0 : second(timeUs + 1 + list.rangeUs()) + LIST_SLACK_S;
  }

  private static long second(long us) {
    return -Math.floorDiv(-us, SECOND_US);
  }

  byte[] hotKey(byte[] tag) {
    return ascii(StoreFields.hotKey(storeId, text(tag), name));
  }

  byte[] listKey(byte[] tag) {
    return ascii(StoreFields.listKey(storeId, text(tag), name));
  }

  byte[] membersKey(byte[] tag) {
    return ascii(StoreFields.membersKey(storeId, text(tag), name));
  }

  private static String text(byte[] ascii) {
    return new String(ascii, StandardCharsets.ISO_8859_1);
  }

  private static byte[] ascii(String text) {
    return text.getBytes(StandardCharsets.ISO_8859_1);
  }
}
