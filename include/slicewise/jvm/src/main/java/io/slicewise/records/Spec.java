package io.slicewise.records;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;

/** What Python tells the JVM is JSON that it made itself. */
public final class Spec {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Spec() {}

  public static JsonNode parsed(String json) {
    try {
      return JSON.readTree(json);
    } catch (JsonProcessingException unreadable) {
      throw new IllegalArgumentException(unreadable);
    }
  }

  static List<String> texts(JsonNode array) {
    List<String> texts = new ArrayList<>();
    array.forEach(text -> texts.add(text.asText()));
    return texts;
  }
}
