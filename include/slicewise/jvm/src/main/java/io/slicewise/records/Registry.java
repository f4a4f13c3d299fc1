package io.slicewise.records;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/**
 * Schemas by their ids, which never change their meaning: each is asked for once per process.
 *
 * <p>A schema that cannot be had is waited for, then the batch fails: a record is never read by a
 * guess, and never bad because a registry is down.
 */
final class Registry implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final long WAIT_MS = Long.getLong("slicewise.registry.wait.ms", 30_000);
  private static final long PAUSE_MS = 500;
  private static final int OK = 200;
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Map<String, Object> PARSED = new ConcurrentHashMap<>();

  /** A schema as it was registered, and those that it names, each before those that name it. */
  record Registered(String type, String text, List<String> references) {}

  /** What stops a batch: no record's fault. */
  static final class Unavailable extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Unavailable(String what, Throwable cause) {
      super(what, cause);
    }
  }

  private final String url;

  Registry(String url) {
    this.url = url.endsWith("/") ? url.substring(0, url.length() - 1) : url;
  }

  /** What `parse` made of the schema of an id, in this process, once. */
  <T> T schema(int id, Class<T> kind, Function<Registered, T> parse) {
    String key = kind.getName() + " " + url + " " + id;
    Object schema = PARSED.get(key);
    if (schema == null) {
      schema = parsed(id, parse);
      PARSED.put(key, schema);
    }
    return kind.cast(schema);
  }

  private <T> T parsed(int id, Function<Registered, T> parse) {
    Registered registered = registered(fetched("/schemas/ids/" + Integer.toUnsignedString(id)));
    try {
      return parse.apply(registered);
    } catch (RuntimeException unreadable) {
      throw new Unavailable("schema " + id + " of " + url + " is not read: "
          + unreadable.getMessage(), unreadable);
    }
  }

  private Registered registered(JsonNode body) {
    List<String> references = new ArrayList<>();
    for (JsonNode reference : body.path("references")) {
      String subject =
          URLEncoder.encode(reference.path("subject").asText(), StandardCharsets.UTF_8);
      Registered registered =
          registered(fetched("/subjects/" + subject + "/versions/"
              + reference.path("version").asInt()));
      references.addAll(registered.references());
      references.add(registered.text());
    }
    return new Registered(body.path("schemaType").asText("AVRO"), body.path("schema").asText(),
        references);
  }

  private JsonNode fetched(String path) {
    long end = System.nanoTime() + WAIT_MS * 1_000_000;
    while (true) {
      String why;
      Exception cause = null;
      try {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url + path))
            .timeout(Duration.ofSeconds(10)).build();
        HttpResponse<String> answer =
            Client.ONE.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() == OK) {
          return JSON.readTree(answer.body());
        }
        why = "status " + answer.statusCode();
      } catch (IOException unreachable) {
        why = unreachable.toString();
        cause = unreachable;
      } catch (InterruptedException stopped) {
        Thread.currentThread().interrupt();
        throw new Unavailable("interrupted while asking the schema registry", stopped);
      }
      if (System.nanoTime() >= end) {
        throw new Unavailable("the schema registry " + url + " does not give " + path + ": " + why,
            cause);
      }
      pause();
    }
  }

  private static void pause() {
    try {
      Thread.sleep(PAUSE_MS);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new Unavailable("interrupted while waiting for the schema registry", stopped);
    }
  }

  /** Made when the first schema is asked for. */
  private static final class Client {
    static final HttpClient ONE = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(5))
        .build();
  }
}
