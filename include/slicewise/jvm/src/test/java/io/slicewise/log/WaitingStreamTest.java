package io.slicewise.log;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.junit.jupiter.api.Test;

class WaitingStreamTest {
  private final List<String> waits = new ArrayList<>();
  private long end = 5;
  private Runnable meanwhile = () -> {};

  @Test
  void recordsThatAreThereAreTakenAtOnce() {
    assertEquals(at(5), stream().latestOffset(at(3), ReadLimit.allAvailable()));
    assertEquals(List.of(), waits);
  }

  @Test
  void withoutRecordsItWaitsAndLooksOnceMore() {
    meanwhile = () -> end = 9;
    assertEquals(at(9), stream().latestOffset(at(5), ReadLimit.allAvailable()));
    assertEquals(List.of("{\"plays\":{\"0\":5}} 1000"), waits);
  }

  @Test
  void aWaitInVainEndsTheTrigger() {
    assertEquals(at(5), stream().latestOffset(at(5), ReadLimit.allAvailable()));
    assertEquals(1, waits.size());
  }

  @Test
  void aQueryThatTakesWhatIsThereWaitsForNothing() {
    WaitingStream stream = stream();
    stream.prepareForTriggerAvailableNow();
    assertEquals(at(5), stream.latestOffset(at(5), ReadLimit.allAvailable()));
    assertEquals(List.of(), waits);
  }

  @Test
  void aStopEndsTheWaitAsSparkExpects() {
    WaitingStream.Signal stopped =
        new WaitingStream.Signal() {
          @Override
          public void await(String offsets, long waitMs) throws InterruptedException {
            throw new InterruptedException("stopped");
          }

          @Override
          public void close() {}
        };
    assertThrows(
        InterruptedException.class,
        () ->
            new WaitingStream(new Kafka(), stopped)
                .latestOffset(at(5), ReadLimit.allAvailable()));
  }

  private WaitingStream stream() {
    return new WaitingStream(
        new Kafka(),
        new WaitingStream.Signal() {
          @Override
          public void await(String offsets, long waitMs) {
            waits.add(offsets + " " + waitMs);
            meanwhile.run();
          }

          @Override
          public void close() {}
        });
  }

  private static Offset at(long offset) {
    return new At(offset);
  }

  private static final class At extends Offset {
    private final long offset;

    At(long offset) {
      this.offset = offset;
    }

    @Override
    public String json() {
      return "{\"plays\":{\"0\":" + offset + "}}";
    }
  }

  /** A log that ends at {@link #end}. */
  private final class Kafka
      implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
      return at(end);
    }

    @Override
    public void prepareForTriggerAvailableNow() {}

    @Override
    public Map<String, String> metrics(Optional<Offset> consumed) {
      return Map.of();
    }

    @Override
    public Offset latestOffset() {
      return at(end);
    }

    @Override
    public Offset initialOffset() {
      return at(0);
    }

    @Override
    public Offset deserializeOffset(String json) {
      return at(0);
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      return new InputPartition[0];
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
      return null;
    }

    @Override
    public void commit(Offset end) {}

    @Override
    public void stop() {}
  }
}
