package io.slicewise.wire;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/** The vectors that Python holds too, with values as Spark gives them. */
public final class Golden {
  private Golden() {}

  public static JsonNode file(String name) {
    try {
      return new ObjectMapper().readTree(Path.of("tests", "unit", "golden", name).toFile());
    } catch (IOException unreadable) {
      throw new UncheckedIOException(unreadable);
    }
  }

  public static Stream<JsonNode> cases(String file, String name) {
    return StreamSupport.stream(file(file).get(name).spliterator(), false);
  }

  static List<String> texts(JsonNode columns, int at) {
    List<String> texts = new ArrayList<>();
    columns.forEach(column -> texts.add(column.get(at).asText()));
    return texts;
  }

  static Object[] values(JsonNode given, List<String> kinds) {
    Object[] values = new Object[kinds.size()];
    for (int i = 0; i < values.length; i++) {
      values[i] = value(given.get(i), kinds.get(i));
    }
    return values;
  }

  private static Object value(JsonNode given, String kind) {
    if (given.isNull()) {
      return null;
    }
    if (kind.startsWith("array<")) {
      String element = kind.substring(6, kind.length() - 1);
      if (given.has("times")) {
        return Collections.nCopies(given.get("times").get(1).asInt(),
            value(given.get("times").get(0), element));
      }
      List<Object> elements = new ArrayList<>();
      given.forEach(item -> elements.add(value(item, element)));
      return elements;
    }
    if (given.isObject()) {
      return given.has("bits")
          ? (Object) Double.longBitsToDouble(Long.parseUnsignedLong(given.get("bits").asText(), 16))
          : given.has("decimal")
              ? new BigDecimal(given.get("decimal").asText())
              : LocalDate.parse(given.get("date").asText());
    }
    return given.isTextual() ? given.asText() : given.isBoolean() ? given.asBoolean()
        : (Object) given.asLong();
  }
}
