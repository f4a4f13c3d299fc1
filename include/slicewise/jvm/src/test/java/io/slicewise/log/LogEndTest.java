package io.slicewise.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.junit.jupiter.api.Test;

class LogEndTest {
  private static final TopicPartition FIRST = new TopicPartition("plays", 0);
  private static final TopicPartition SECOND = new TopicPartition("plays", 1);
  private static final String FROM = "{\"plays\":{\"0\":7,\"1\":3}}";

  private final List<MockConsumer<byte[], byte[]>> made = new ArrayList<>();

  private Consumer<byte[], byte[]> consumer() {
    MockConsumer<byte[], byte[]> one = new MockConsumer<>(OffsetResetStrategy.NONE);
    one.updateBeginningOffsets(Map.of(FIRST, 0L, SECOND, 0L));
    made.add(one);
    return one;
  }

  /** Milliseconds of a wait that nothing but a record or its time ends. */
  private static long waited(LogEnd end, long waitMs) throws InterruptedException {
    long begun = System.nanoTime();
    end.await(FROM, waitMs);
    return (System.nanoTime() - begun) / 1_000_000;
  }

  @Test
  void aRecordEndsTheWait() throws InterruptedException {
    try (LogEnd end = new LogEnd(this::consumer)) {
      end.await(FROM, 1);
      made.get(0)
          .schedulePollTask(
              () ->
                  made.get(0)
                      .addRecord(new ConsumerRecord<>("plays", 1, 3, new byte[0], new byte[0])));
      assertTrue(waited(end, 60_000) < 30_000);
    }
  }

  @Test
  void withoutARecordItLastsItsTimeAndFetchesFromTheGivenOffsets() throws InterruptedException {
    try (LogEnd end = new LogEnd(this::consumer)) {
      assertTrue(waited(end, 20) >= 20);
      assertEquals(7, made.get(0).position(FIRST));
      assertEquals(3, made.get(0).position(SECOND));
    }
  }

  @Test
  void aMarkerThatIsNoRecordEndsItToo() throws InterruptedException {
    try (LogEnd end = new LogEnd(this::consumer)) {
      end.await(FROM, 1);
      made.get(0).schedulePollTask(() -> made.get(0).seek(FIRST, 8));
      assertTrue(waited(end, 60_000) < 30_000);
    }
  }

  @Test
  void oneConsumerServesAllWaitsAndIsClosed() throws InterruptedException {
    LogEnd end = new LogEnd(this::consumer);
    end.await(FROM, 1);
    end.await("{\"plays\":{\"0\":9,\"1\":3}}", 1);
    assertEquals(1, made.size());
    assertEquals(9, made.get(0).position(FIRST));
    end.close();
    assertTrue(made.get(0).closed());
    end.close();
  }

  @Test
  void whatFailsIsLeftToSparkAndTheNextWaitBeginsAnew() throws InterruptedException {
    try (LogEnd end = new LogEnd(this::consumer)) {
      end.await(FROM, 1);
      made.get(0).setPollException(new KafkaException("away"));
      end.await(FROM, 60_000);
      assertTrue(made.get(0).closed());
      end.await(FROM, 1);
      assertEquals(2, made.size());
      assertFalse(made.get(1).closed());
    }
  }

  @Test
  void aStopIsTheExceptionThatSparkKnowsAStopBy() throws InterruptedException {
    try (LogEnd end = new LogEnd(this::consumer)) {
      end.await(FROM, 1);
      Thread.currentThread().interrupt();
      // so says a consumer whose thread is interrupted
      made.get(0).setPollException(new InterruptException("stopped"));
      assertThrows(InterruptedException.class, () -> end.await(FROM, 60_000));
      assertFalse(Thread.interrupted());
    }
  }
}
