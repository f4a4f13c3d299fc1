package io.slicewise.records;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * A Kafka record is good or bad, and its values are what they are, by this one function of the
 * record's bytes, its Kafka timestamp and one schema of the source ({@link Versions}: which one).
 *
 * <p>Gives a row (event time in microseconds UTC, reason, the kept columns): the reason is null and
 * the rest stands where the record is good; else the reason alone stands. Every member of the
 * record is read, also those that no column names, because a record that is bad anywhere is bad.
 * Holds no state between records: an instance may serve many threads.
 */
public final class RecordReader implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int OF_KAFKA = -1;

  private final int maxBytes;
  private final long maxLatenessUs;
  private final long maxAheadUs;
  private final long historyUntilUs;
  private final int timestamp;
  private final int[] required;
  private final Field[] fields;
  private final int kept;
  private final Format format;
  private final String notOne;

  /**
   * @param fields every column of the schema, in its order, each a member of its own name
   * @param required names of the columns that must be there, before the time
   * @param timestamp the column of the event time
   */
  public RecordReader(
      List<Field> fields,
      List<String> required,
      String timestamp,
      long maxLatenessUs,
      long maxAheadUs,
      int maxBytes) {
    this(
        "json", null, fields, null, required, timestamp, maxLatenessUs, maxAheadUs, 0L, maxBytes);
  }

  /**
   * @param format json, avro or protobuf; the two latter as Confluent frames them
   * @param registry the URL of the schema registry; null for JSON
   * @param paths of each field the names of members from the record down; null: its own name each
   * @param timestamp null for the time of the Kafka record
   * @param historyUntilUs events before it come from a table, and no record of one is good; 0: none
   *     does
   */
  public RecordReader(
      String format,
      String registry,
      List<Field> fields,
      List<List<String>> paths,
      List<String> required,
      String timestamp,
      long maxLatenessUs,
      long maxAheadUs,
      long historyUntilUs,
      int maxBytes) {
    this.fields = fields.toArray(new Field[0]);
    List<String> names = fields.stream().map(field -> field.name).toList();
    this.kept = (int) fields.stream().filter(field -> field.kept).count();
    ColumnTree columnTree =
        ColumnTree.of(paths == null ? names.stream().map(List::of).toList() : paths);
    this.format = Format.of(format, registry, this.fields, columnTree);
    this.notOne = "not_" + format;
    this.timestamp = timestamp == null ? OF_KAFKA : names.indexOf(timestamp);
    this.required = required.stream().mapToInt(names::indexOf).toArray();
    this.maxLatenessUs = maxLatenessUs;
    this.maxAheadUs = maxAheadUs;
    this.historyUntilUs = historyUntilUs;
    this.maxBytes = maxBytes;
  }

  /** The reader that this JSON describes: its members are the arguments of the constructor. */
  public static RecordReader of(String json) {
    JsonNode given = Spec.parsed(json);
    List<Field> fields = new ArrayList<>();
    given.get("fields").forEach(field -> fields.add(Field.of(field)));
    List<List<String>> paths = new ArrayList<>();
    given.get("paths").forEach(path -> paths.add(Spec.texts(path)));
    return new RecordReader(
        given.get("format").asText(),
        given.get("registry").textValue(),
        fields,
        paths,
        Spec.texts(given.get("required")),
        given.get("timestamp").textValue(),
        given.get("max_lateness_us").asLong(),
        given.get("max_ahead_us").asLong(),
        given.path("history_until_us").asLong(0L),
        given.get("max_bytes").asInt());
  }

  /** The kept columns, in their order. */
  List<Field> kept() {
    return Arrays.stream(fields).filter(field -> field.kept).toList();
  }

  /** Event time, reason and the kept columns. */
  Object[] read(byte[] value, long kafkaTimeUs) {
    Object[] read = new Object[fields.length];
    String reason = reasonOf(value, kafkaTimeUs, read);
    Object[] row = new Object[2 + kept];
    if (reason != null) {
      row[1] = reason;
      return row;
    }
    row[0] = timestamp == OF_KAFKA ? kafkaTimeUs : read[timestamp];
    for (int i = 0, out = 2; i < read.length; i++) {
      if (fields[i].kept) {
        row[out++] = read[i];
      }
    }
    return row;
  }

  /** The first reason that holds, null for a good record, of which `read` then has the values. */
  private String reasonOf(byte[] value, long kafkaTimeUs, Object[] read) {
    if (value != null && value.length > maxBytes) {
      return "too_large";
    }
    String unread = value == null ? notOne : format.read(value, read);
    if (unread != null) {
      return unread;
    }
    for (int column : required) {
      if (read[column] == null) {
        return "missing_required:" + fields[column].name;
      }
    }
    for (int i = 0; i < read.length; i++) {
      if (read[i] instanceof Refused) {
        return ((Refused) read[i]).reason + ":" + fields[i].name;
      }
    }
    if (timestamp == OF_KAFKA) {
      if (!Instants.isTime(kafkaTimeUs)) {
        return "bad_time:kafka";
      }
      return kafkaTimeUs < historyUntilUs ? "in_history" : null;
    }
    long eventTime = (Long) read[timestamp];
    if (eventTime < historyUntilUs) {
      return "in_history";
    }
    if (eventTime < kafkaTimeUs - maxLatenessUs) {
      return "too_late";
    }
    return eventTime > kafkaTimeUs + maxAheadUs ? "too_far_ahead" : null;
  }
}
