package io.slicewise.log;

import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/**
 * A stream whose trigger, where there is nothing new, ends with the next record or after {@link
 * #WAIT_MS}: ten triggers a second would each ask the broker twice, and find a record later.
 */
final class WaitingStream
    implements MicroBatchStream, SupportsTriggerAvailableNow, ReportsSourceMetrics {
  /** A partition that is added is seen no later than this: nobody waits for its records. */
  static final long WAIT_MS = 1_000;

  /** What a trigger without records waits for. */
  interface Signal extends AutoCloseable {
    /** Returns when the log goes on behind these offsets (JSON), or after so long. */
    void await(String offsets, long waitMs) throws InterruptedException;

    @Override
    void close();
  }

  private final MicroBatchStream kafka;
  private final Signal signal;
  private boolean drains;

  WaitingStream(MicroBatchStream kafka, Signal signal) {
    this.kafka = kafka;
    this.signal = signal;
  }

  @Override
  public Offset latestOffset(Offset start, ReadLimit limit) {
    SupportsAdmissionControl bounded = (SupportsAdmissionControl) kafka;
    Offset latest = bounded.latestOffset(start, limit);
    if (drains || (latest != null && !latest.equals(start))) {
      return latest;
    }
    try {
      signal.await(start.json(), WAIT_MS);
    } catch (InterruptedException stopped) {
      throw WaitingStream.<RuntimeException>asIs(stopped);
    }
    return bounded.latestOffset(start, limit);
  }

  /** Spark tells a query that was stopped from one that failed by this very exception. */
  @SuppressWarnings("unchecked")
  private static <E extends Throwable> E asIs(Throwable thrown) throws E {
    throw (E) thrown;
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    drains = true;
    ((SupportsTriggerAvailableNow) kafka).prepareForTriggerAvailableNow();
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return ((SupportsAdmissionControl) kafka).getDefaultReadLimit();
  }

  @Override
  public Offset reportLatestOffset() {
    return ((SupportsAdmissionControl) kafka).reportLatestOffset();
  }

  @Override
  public Map<String, String> metrics(Optional<Offset> consumed) {
    return ((ReportsSourceMetrics) kafka).metrics(consumed);
  }

  @Override
  public Offset initialOffset() {
    return kafka.initialOffset();
  }

  @Override
  public Offset latestOffset() {
    return kafka.latestOffset();
  }

  @Override
  public Offset deserializeOffset(String json) {
    return kafka.deserializeOffset(json);
  }

  @Override
  public InputPartition[] planInputPartitions(Offset start, Offset end) {
    return kafka.planInputPartitions(start, end);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    return kafka.createReaderFactory();
  }

  @Override
  public void commit(Offset end) {
    kafka.commit(end);
  }

  @Override
  public void stop() {
    try {
      signal.close();
    } finally {
      kafka.stop();
    }
  }

  @Override
  public String toString() {
    return kafka.toString();
  }
}
