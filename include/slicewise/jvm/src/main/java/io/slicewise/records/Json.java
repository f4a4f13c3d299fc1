package io.slicewise.records;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.StreamReadFeature;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.regex.Pattern;
import org.apache.spark.unsafe.types.UTF8String;

/** A record that is one JSON object, whole and alone. */
final class Json implements Format {
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

  private final Field[] fields;
  private final ColumnTree columns;

  Json(Field[] fields, ColumnTree columns) {
    this.fields = fields;
    this.columns = columns;
  }

  @Override
  public String read(byte[] value, Object[] read) {
    String text = textOf(value);
    if (text == null || !beginsAnObject(text)) {
      return "not_json";
    }
    try {
      members(text, read);
    // no record, however strange, stops a stream
    } catch (IOException | RuntimeException unreadable) {
      return "not_json";
    }
    return holdsLoneSurrogate(text) ? "bad_text" : null;
  }

  /** The bytes as text; null where they are no UTF-8. */
  private static String textOf(byte[] value) {
    for (byte octet : value) {
      if (octet < 0) {
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
      members(parser, columns, read);
      if (parser.nextToken() != null) {
        throw new IOException("something follows the object");
      }
    }
  }

  private void members(JsonParser parser, ColumnTree inside, Object[] read) throws IOException {
    while (parser.nextToken() != JsonToken.END_OBJECT) {
      ColumnTree member = inside.member(parser.currentName());
      JsonToken token = parser.nextToken();
      if (member != null && member.column() != ColumnTree.INNER) {
        read[member.column()] = fields[member.column()].read(parser, token);
      } else if (member != null && token == JsonToken.START_OBJECT) {
        members(parser, member, read);
        continue;
      } else if (member != null && token != JsonToken.VALUE_NULL) {
        member.refuse(read);
      }
      parser.skipChildren(); // a container that is here still; duplicate keys in it are found
    }
  }

  /**
   * Escaped backslashes and whole pairs taken away, is an escaped surrogate left? A space stands
   * for each backslash, so that its neighbours do not become a pair.
   */
  private static boolean holdsLoneSurrogate(String text) {
    if (!text.contains("\\ud") && !text.contains("\\uD")) {
      return false;
    }
    String left = ESCAPED_BACKSLASHES.matcher(text).replaceAll(" ");
    return SURROGATE.matcher(PAIRS.matcher(left).replaceAll("")).find();
  }
}
