package io.slicewise.spark;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A Kafka record is good or bad, and its values are what they are, by this one function of the
 * record's bytes, its Kafka timestamp and the source's schema.
 *
 * <p>Gives a row (event time in microseconds UTC, reason, the kept columns): the reason is null and
 * the rest stands where the record is good; else the reason alone stands. Every member of the
 * record is read, also those that no column names, because a record that is bad anywhere is bad.
 * Holds no state between records: an instance may serve many threads.
 */
public final class RecordReader implements UDF2<byte[], Long, Row> {
  private static final long serialVersionUID = 1L;
  private static final int MAX_DEPTH = 999;
  private static final Pattern ESCAPED_BACKSLASHES = Pattern.compile("\\\\\\\\");
  private static final Pattern PAIRS =
      Pattern.compile("\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}");
  private static final Pattern SURROGATE = Pattern.compile("\\\\u[dD][89a-fA-F]");
  private static final JsonFactory JSON =
      JsonFactory.builder()
          // its table of names is shared between records and refuses too many that collide: what a
          // record is would depend on those before it
          .disable(JsonFactory.Feature.CANONICALIZE_FIELD_NAMES)
          .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
          .streamReadConstraints(StreamReadConstraints.builder().maxNestingDepth(MAX_DEPTH).build())
          .build();

  private final int maxBytes;
  private final long maxLatenessUs;
  private final long maxAheadUs;
  private final int timestamp;
  private final int[] required;
  private final Field[] fields;
  private final int kept;
  private final HashMap<String, Integer> places = new HashMap<>();

  /**
   * @param fields every column of the schema, in its order
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
    this.fields = fields.toArray(new Field[0]);
    int out = 0;
    for (int i = 0; i < this.fields.length; i++) {
      places.put(this.fields[i].name, i);
      out += this.fields[i].kept ? 1 : 0;
    }
    this.kept = out;
    this.timestamp = places.get(timestamp);
    this.required = required.stream().mapToInt(places::get).toArray();
    this.maxLatenessUs = maxLatenessUs;
    this.maxAheadUs = maxAheadUs;
    this.maxBytes = maxBytes;
  }

  @Override
  public Row call(byte[] value, Long kafkaTimeUs) {
    Object[] read = new Object[fields.length];
    String reason = reasonOf(value, kafkaTimeUs, read);
    Object[] row = new Object[2 + kept];
    if (reason != null) {
      row[1] = reason;
      return RowFactory.create(row);
    }
    row[0] = read[timestamp];
    for (int i = 0, out = 2; i < read.length; i++) {
      if (fields[i].kept) {
        row[out++] = read[i];
      }
    }
    return RowFactory.create(row);
  }

  /** The first reason that holds, null for a good record, of which `read` then has the values. */
  private String reasonOf(byte[] value, long kafkaTimeUs, Object[] read) {
    if (value != null && value.length > maxBytes) {
      return "too_large";
    }
    if (value == null) {
      return "not_json";
    }
    String text = textOf(value);
    if (text == null || !beginsAnObject(text)) {
      return "not_json";
    }
    try {
      members(text, read);
    } catch (IOException | RuntimeException unreadable) { // no record, however strange, stops a stream
      return "not_json";
    }
    if (holdsLoneSurrogate(text)) {
      return "bad_text";
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
    long eventTime = (Long) read[timestamp];
    if (eventTime < kafkaTimeUs - maxLatenessUs) {
      return "too_late";
    }
    return eventTime > kafkaTimeUs + maxAheadUs ? "too_far_ahead" : null;
  }

  /** The bytes as text; null where they are no UTF-8. */
  private static String textOf(byte[] value) {
    for (byte each : value) {
      if (each < 0) {
        boolean valid = UTF8String.fromBytes(value).isValid();
        return valid ? new String(value, StandardCharsets.UTF_8) : null;
      }
    }
    return new String(value, StandardCharsets.ISO_8859_1); // ASCII: nothing to decode
  }

  private static boolean beginsAnObject(String text) {
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c != ' ' && c != '\t' && c != '\r' && c != '\n') {
        return c == '{';
      }
    }
    return false;
  }

  private void members(String text, Object[] read) throws IOException {
    try (JsonParser parser = JSON.createParser(text)) {
      parser.nextToken();
      while (parser.nextToken() != JsonToken.END_OBJECT) {
        Integer column = places.get(parser.currentName());
        JsonToken token = parser.nextToken();
        if (column != null) {
          read[column] = fields[column].read(parser, token);
        }
        parser.skipChildren(); // a container that is here still; duplicate keys in it are found
      }
      if (parser.nextToken() != null) {
        throw new IOException("something follows the object");
      }
    }
  }

  /**
   * Escaped backslashes and whole pairs taken away, is an escaped surrogate left? A space stands for
   * each backslash, so that its neighbours do not become a pair.
   */
  private static boolean holdsLoneSurrogate(String text) {
    if (!text.contains("\\ud") && !text.contains("\\uD")) {
      return false;
    }
    String left = ESCAPED_BACKSLASHES.matcher(text).replaceAll(" ");
    return SURROGATE.matcher(PAIRS.matcher(left).replaceAll("")).find();
  }
}
