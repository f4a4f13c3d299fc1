package io.slicewise.realtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.slicewise.wire.Failure;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.Test;

/** What goes to the store, in which order, and what its refusals come to. */
class RealtimeSenderTest {
  private static final int HEAD = 10;
  private static final String DONE = "*4\r\n:1\r\n:0\r\n:0\r\n:0\r\n";
  private static final StructType ROWS =
      new StructType()
          .add("partition", "int")
          .add("offset", "long")
          .add("kafka_time", "long")
          .add("event_time", "long")
          .add("keep", "byte")
          .add("e", "string");

  private static Row row(long offset, int keep, String entity) {
    return new GenericRowWithSchema(new Object[] {0, offset, 1L, 1L, keep < 0 ? null : (byte) keep,
        entity}, ROWS);
  }

  private static Map<String, List<Long>> offsets(List<List<String>> calls) {
    Map<String, List<Long>> offsets = new HashMap<>();
    for (List<String> call : calls) {
      for (int at = HEAD; at < call.size(); at += 3) {
        offsets.computeIfAbsent(call.get(3), key -> new ArrayList<>())
            .add(Long.valueOf(call.get(at)));
      }
    }
    return offsets;
  }

  @Test
  void everyRowThatIsKeptGoesOnceInTheOrderOfItsEntity() throws IOException {
    try (Node node = new Node(call -> DONE)) {
      RealtimeWriter writer = RealtimeWriter.of(node.spec());
      writer.open(0, 0);
      for (long offset = 0; offset < 3_000; offset++) {
        writer.process(row(offset, offset % 5 == 4 ? 1 : offset % 7 == 6 ? -1 : 0, offset % 3 == 0
            ? "other" : "hot"));
      }
      writer.close(null);
      Map<String, List<Long>> written = offsets(node.calls);
      assertEquals(2, written.size());
      written.forEach(
          (key, offsets) ->
              assertEquals(
                  LongStream.range(3, 3_000) // below lies what the backfill brings
                      .filter(offset -> offset % 5 != 4 && offset % 7 != 6
                      && (offset % 3 == 0) == key.contains("other"))
                      .boxed()
                      .toList(),
                  offsets));
      assertTrue(node.calls.stream().allMatch(call -> call.size() <= HEAD + 3 * 512));
      assertTrue(written.containsKey("sw:7:{e:string:hot}:u:hot"), written.keySet()::toString);
    }
  }

  @Test
  void aCallSaysWhereTheEventsStandAndHowManyAFieldTakes() throws IOException {
    try (Node node = new Node(call -> DONE)) {
      write(RealtimeWriter.of(node.spec()), 5, 6);
      List<String> call = node.calls.get(0);
      String topicPartition = "0123456789abcdef0123456789abcdef:0";
      assertEquals(
          List.of("1", "sw:7:{e:string:a}:u:hot", "l:" + topicPartition, "x:" + topicPartition,
              topicPartition, "10", "64", "4096", "5"),
          call.subList(2, 11));
      assertEquals("1", call.get(12)); // the second of expiry; before it the member
      assertEquals(13, call.size());
    }
  }

  @Test
  void whatTheRunBeforeHasWrittenIsNotSentAgain() throws IOException {
    try (Node node = new Node(call -> DONE)) {
      String first = node.spec().replace("\"source\":\"s\"", "\"source\":\"relay\"");
      write(RealtimeWriter.of(first), 3, 100);
      String next = first.replace("\"run\":\"a\"", "\"run\":\"b\"");
      write(RealtimeWriter.of(next.replace("\"after\":null", "\"after\":\"a\"")), 50, 120);
      assertEquals(List.of(LongStream.range(3, 120).boxed().toList()),
          List.copyOf(offsets(node.calls).values()));
      node.calls.clear();
      // of another server run, it may be
      write(RealtimeWriter.of(next.replace("\"run\":\"b\"", "\"run\":\"c\"")), 50, 120);
      assertEquals(List.of(LongStream.range(50, 120).boxed().toList()),
          List.copyOf(offsets(node.calls).values()));
    }
  }

  private static void write(RealtimeWriter writer, long first, long end) {
    writer.open(0, 0);
    for (long offset = first; offset < end; offset++) {
      writer.process(row(offset, 0, "a"));
    }
    writer.close(null);
  }

  @Test
  void aNodeThatForgotTheScriptsIsToldThemAgain() throws IOException {
    int[] left = {2};
    try (Node node = new Node(call -> left[0]-- > 0 ? "-NOSCRIPT No matching script.\r\n" : DONE)) {
      RealtimeWriter writer = RealtimeWriter.of(node.spec());
      writer.open(0, 0);
      writer.process(row(5, 0, "a"));
      writer.close(null);
      assertEquals(3, node.calls.size());
      assertEquals(2 + 2 * 2, node.scripts);
    }
  }

  @Test
  void aRefusalFailsWhatIsProcessedNextAndSaysWhere() throws IOException {
    try (Node node = new Node(call -> "-WRONGTYPE Operation\r\n")) {
      RealtimeWriter writer = RealtimeWriter.of(node.spec());
      writer.open(0, 0);
      Failure why =
          assertThrows(
              Failure.class,
              () -> {
                for (long offset = 3; offset < 1_000_000; offset++) {
                  writer.process(row(offset, 0, "a"));
                }
              });
      assertTrue(why.getMessage().contains("WRONGTYPE"), why.getMessage());
      assertTrue(why.getMessage().contains("unit u, partition 0, offset 3"), why.getMessage());
      assertEquals(why, assertThrows(Failure.class, () -> writer.close(null)));
    }
  }

  @Test
  void anotherStoreIdIsRefusedBeforeTheFirstRow() throws IOException {
    try (Node node = new Node(call -> DONE)) {
      RealtimeWriter writer =
          RealtimeWriter.of(node.spec().replace("\"generation\":7", "\"generation\":8"));
      assertThrows(Failure.class, () -> writer.open(0, 0));
      RealtimeWriter other =
          RealtimeWriter.of(node.spec().replace("\"run_id\":\"r\"", "\"run_id\":\"q\""));
      assertThrows(Failure.class, () -> other.open(0, 0));
      assertTrue(node.calls.isEmpty());
    }
  }

  @Test
  void whoSleptThroughADeploymentWritesNothingOfWhatCameAfterIt() throws Exception {
    Node[] self = new Node[1];
    Node sleepy =
        new Node(
            call -> {
              sleep(2_200); // longer than the real-time lane trusts what it was told
              self[0].deploymentVersion = "6";
              return DONE;
            });
    try (Node node = sleepy) {
      self[0] = node;
      node.deploymentVersion = "5";
      RealtimeWriter writer =
          RealtimeWriter.of(node.spec().replace("\"epoch\":null", "\"epoch\":5"));
      writer.open(0, 0);
      writer.process(row(0, 1, "a")); // of no unit: the sender learns of the partition, and asks
      while (node.requests < 2) {
        sleep(1);
      }
      writer.process(row(5, 0, "a"));
      while (node.calls.isEmpty()) {
        sleep(1);
      }
      writer.process(row(6, 0, "a"));
      Failure why = assertThrows(Failure.class, () -> writer.close(null));
      assertTrue(why.getMessage().contains("version 6"), why.getMessage());
      assertEquals(1, node.calls.size());
    }
  }

  private static void sleep(long ms) {
    try {
      Thread.sleep(ms);
    } catch (InterruptedException stopped) {
      throw new IllegalStateException(stopped);
    }
  }

  @Test
  void aTaskThatFailedLeavesNothingThatWrites() throws IOException {
    try (Node node = new Node(call -> DONE)) {
      RealtimeWriter writer = RealtimeWriter.of(node.spec());
      writer.open(0, 0);
      writer.process(row(5, 0, "a"));
      writer.close(new IllegalStateException("the task"));
      assertTrue(Thread.getAllStackTraces().keySet().stream()
          .noneMatch(thread -> thread.getName().equals("realtime-s")));
    }
  }
}
