package io.slicewise.realtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;

import com.fasterxml.jackson.databind.JsonNode;
import io.slicewise.records.Spec;
import java.io.IOException;
import java.util.Locale;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * What the real-time lane says is JSON whose histogram is cumulative, whatever the machine's
 * language is.
 */
class RealtimeStatusTest {
  @Test
  void aRunThatTakesOverSpeaksForThePartitionFromThenOn() throws IOException {
    try (Node node = new Node(call -> "")) {
      RealtimeSpec first =
          RealtimeSpec.of(node.spec().replace("\"source\":\"s\"", "\"source\":\"two\""));
      RealtimeStatus before = RealtimeStatus.of(first, 0, 1);
      before.acknowledged(7);
      RealtimeStatus after = RealtimeStatus.of(next(node, "b", "a"), 0, 2);
      assertEquals("true false", before.relieved + " " + after.relieved);
      assertEquals("true false", after.acknowledgedBefore(7) + " " + after.acknowledgedBefore(8));
      assertSame(before, RealtimeStatus.of(first, 0, 3)); // its next batch, while both run
      assertSame(after, RealtimeStatus.of(next(node, "b", "a"), 0, 3));
      RealtimeStatus other = RealtimeStatus.of(next(node, "c", "x"), 0, 4);
      assertFalse(other.acknowledgedBefore(0));
      assertFalse(after.relieved);
    }
  }

  private static RealtimeSpec next(Node node, String run, String after) {
    String spec = node.spec().replace("\"source\":\"s\"", "\"source\":\"two\"");
    return RealtimeSpec.of(spec.replace("\"run\":\"a\",\"after\":null", "\"run\":\"" + run
        + "\",\"after\":\"" + after + "\""));
  }

  @Test
  void bucketsAreCumulativeAndHoldTheirUpperBounds() {
    Locale before = Locale.getDefault();
    Locale.setDefault(Locale.GERMANY);
    try {
      RealtimeStatus status = RealtimeStatus.begun("r1", 3, 1_000);
      for (double ms : new double[] {-1, 0.5, 0.51, 60_000, 60_001}) {
        status.visible(ms);
      }
      status.replied(false, new long[] {5, 4, 3, 2});
      status.replied(true, new long[] {1, 1, 7, 8});
      status.acknowledged(9);
      status.acknowledged(8);
      JsonNode parsed = Spec.parsed(status.text(2_000, 1, 2, null, true));
      JsonNode counts = parsed.get("ms").get("counts");
      assertEquals(RealtimeStatus.BOUNDS_MS.length + 1, counts.size());
      assertEquals(2, counts.get(0).asInt());
      assertEquals(3, counts.get(1).asInt());
      assertEquals(4, counts.get(counts.size() - 2).asInt());
      assertEquals(5, counts.get(counts.size() - 1).asInt());
      assertEquals(0.5, parsed.get("ms").get("bounds").get(0).asDouble());
      assertEquals(
          "6 5 3 2 7 8 9 1 2 null",
          String.join(
              " ",
              Stream.of(
                      "written", "known", "expired", "skipped", "trimmed", "cut", "acked",
                      "reconnects", "queue", "ledger")
                  .map(name -> parsed.get(name).asText())
                  .toList()));
    } finally {
      Locale.setDefault(before);
    }
  }
}
