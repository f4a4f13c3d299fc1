package io.slicewise.realtime;

import java.util.Locale;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What the real-time lane of one partition says about itself: counted since its query began, over
 * all its batches in this JVM.
 *
 * <p>Counts are of writes, one per unit that takes a row; `rows` alone is of rows.
 */
final class RealtimeStatus {
  /** Upper bounds in milliseconds of the histogram's buckets; a last one has none. */
  static final double[] BOUNDS_MS = {
    0.5, 1, 2, 3, 5, 7.5, 10, 20, 35, 50, 75, 100, 200, 350, 500, 1_000, 2_000, 5_000, 10_000,
    30_000, 60_000
  };

  private static final ConcurrentHashMap<String, RealtimeStatus> BY_PARTITION =
      new ConcurrentHashMap<>();

  final int partition;
  private final String run;
  private final long sinceUs;
  private final long[] counts = new long[BOUNDS_MS.length + 1];
  private double sumMs;
  private long written;
  private long alreadyApplied;
  private long expired;
  private long skipped;
  private long trimmed;
  private long cut;
  private volatile long acked = -1;

  /**
   * Of the run that this one takes over from; it is none any more once another takes over from this
   * one.
   */
  private volatile RealtimeStatus before;

  /** Whether another run has taken over, and speaks for the partition. */
  volatile boolean relieved;

  /** Of the writer's thread; the rest is of the sender's. */
  volatile long rows;

  volatile long seen = -1;

  private RealtimeStatus(String run, int partition, long nowUs) {
    this.run = run;
    this.partition = partition;
    this.sinceUs = nowUs;
  }

  /** That of a run's partition; begun anew with another run. */
  static RealtimeStatus of(RealtimeSpec spec, int partition, long nowUs) {
    RealtimeStatus latest =
        BY_PARTITION.compute(
            spec.source + ":" + partition,
            (name, current) ->
                current != null && current.ofRun(spec.run) != null ? current
                    : after(current, spec, partition, nowUs));
    RealtimeStatus status = latest.ofRun(spec.run);
    status.seen = -1; // what an attempt before this one saw may be to come again
    return status;
  }

  private static RealtimeStatus after(RealtimeStatus current, RealtimeSpec spec, int partition,
      long nowUs) {
    RealtimeStatus status = begun(spec.run, partition, nowUs);
    if (current != null && current.run.equals(spec.after)) {
      status.before = current;
      current.before = null;
      current.relieved = true;
    }
    return status;
  }

  private RealtimeStatus ofRun(String name) {
    RealtimeStatus earlier = before;
    return run.equals(name) ? this : earlier == null ? null : earlier.ofRun(name);
  }

  /** Whether the run before this one has written the event, into the same server run. */
  boolean acknowledgedBefore(long offset) {
    RealtimeStatus earlier = before;
    return earlier != null && offset <= earlier.acked;
  }

  /** One of its own, counted from now on. */
  static RealtimeStatus begun(String run, int partition, long nowUs) {
    return new RealtimeStatus(run, partition, nowUs);
  }

  synchronized void replied(boolean list, long[] reply) {
    written += reply[0];
    alreadyApplied += reply[1];
    if (list) {
      trimmed += reply[2];
      cut += reply[3];
    } else {
      expired += reply[2];
      skipped += reply[3];
    }
  }

  /** An event was visible so long after Kafka had it. */
  synchronized void visible(double ms) {
    int at = 0;
    while (at < BOUNDS_MS.length && ms > BOUNDS_MS[at]) {
      at++;
    }
    counts[at]++;
    sumMs += ms;
  }

  synchronized void acknowledged(long offset) {
    acked = Math.max(acked, offset);
  }

  /** As JSON. waits: the committed offsets are too far behind. */
  synchronized String text(long nowUs, long reconnects, int queue, Long committedOffset,
      boolean waits) {
    StringBuilder bounds = new StringBuilder();
    StringBuilder cumulative = new StringBuilder();
    long sum = 0;
    for (int i = 0; i < counts.length; i++) {
      sum += counts[i];
      cumulative.append(i == 0 ? "" : ",").append(sum);
      bounds.append(i == 0 ? "" : i < BOUNDS_MS.length ? "," : "")
          .append(i < BOUNDS_MS.length ? BOUNDS_MS[i] : "");
    }
    return String.format(
        Locale.ROOT,
        "{\"run\":\"%s\",\"partition\":%d,\"acked\":%d,\"rows\":%d,\"written\":%d,\"known\":%d,"
            + "\"expired\":%d,\"skipped\":%d,\"trimmed\":%d,\"cut\":%d,\"reconnects\":%d,\"queue\":%d,"
            + "\"ledger\":%s,\"waits\":%b,\"since\":%d,\"time\":%d,"
            + "\"ms\":{\"bounds\":[%s],\"counts\":[%s],\"sum\":%s}}",
        run, partition, acked, rows, written, alreadyApplied, expired, skipped, trimmed, cut,
        reconnects, queue, committedOffset,
        waits, sinceUs, nowUs, bounds, cumulative, Double.toString(sumMs));
  }
}
