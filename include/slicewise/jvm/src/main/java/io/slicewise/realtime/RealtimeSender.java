package io.slicewise.realtime;

import io.slicewise.wire.Commands;
import io.slicewise.wire.Failure;
import io.slicewise.wire.Replies;
import java.io.Closeable;
import java.io.IOException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What was put in is written in its order, until each was acknowledged; of an entity nothing goes
 * before what came before it was.
 *
 * <p>One thread takes whatever is there and sends it as one pipeline: the longer an answer takes,
 * the more goes with the next. So nothing waits for a batch to fill, and a burst costs few turns. A
 * broken connection is opened again to the same server run, and all that was not acknowledged goes
 * again: written twice, it is the same field.
 */
final class RealtimeSender implements Closeable {
  private static final int MOST_WRITES = 4096;
  private static final long MOST_BYTES = 32L << 20;
  private static final long STATUS_NS = TimeUnit.SECONDS.toNanos(1);
  private static final long REQUEST_NS = TimeUnit.MILLISECONDS.toNanos(50);

  /**
   * So long after the metadata was asked last nothing is written before they are asked again: a
   * sender that slept through a deployment writes no record that came after it. Less than `LEASE_S`
   * of stores/recovery/schema_offsets.py (docs/adr/0057).
   */
  private static final long TRUST_NS = TimeUnit.SECONDS.toNanos(2);

  private static final long WAIT_MS = 10;
  private static final long LEAST_BACK_OFF_MS = 20;
  private static final long MOST_BACK_OFF_MS = 1_000;
  private static final int TRIES = 10;
  private static final PendingWrite END = new PendingWrite(null, 0, 0, 0, new byte[0]);
  private static final long END_MS = 10_000;

  private final RealtimeSpec spec;
  private final ArrayBlockingQueue<PendingWrite> queue;
  private final Map<Integer, RealtimeStatus> partitions = new ConcurrentHashMap<>();
  private final Thread thread;

  /** Bytes of what was put in and not acknowledged yet. */
  private final AtomicLong unackedBytes = new AtomicLong();

  // of the sender's thread
  private final List<PendingWrite> unacked = new ArrayList<>();
  private final Commands commands = new Commands();
  private Map<Integer, Long> committedOffsets;
  private volatile RealtimeNode node;
  private long statusNs = System.nanoTime() - STATUS_NS;
  private long requestedNs = statusNs;

  /**
   * When the metadata was last asked whether what the real-time lane was planned by still stands,
   * and it did.
   */
  private long confirmedNs = System.nanoTime();

  private boolean waits;
  private int vain;

  private volatile long reconnects;
  private boolean ending;
  private volatile boolean stopped;
  private volatile RuntimeException failure;

  /** Connects; Failure where the store is in another server run, or nobody answers for too long. */
  RealtimeSender(RealtimeSpec spec) {
    this.spec = spec;
    this.queue = new ArrayBlockingQueue<>(spec.queue);
    this.node = connected();
    this.committedOffsets = node.committedOffsets();
    this.thread = new Thread(this::run, "realtime-" + spec.source);
    thread.setDaemon(true);
    thread.start();
  }

  RealtimeStatus partition(int number) {
    return partitions.computeIfAbsent(number,
        partition -> RealtimeStatus.of(spec, partition, nowUs()));
  }

  /** Waits where there is no room. Throws why the sender ended, if it has. */
  void put(PendingWrite write) {
    try {
      while (unackedBytes.get() > MOST_BYTES) {
        check();
        Thread.sleep(1);
      }
      unackedBytes.addAndGet(write.size());
      while (!queue.offer(write, 100, TimeUnit.MILLISECONDS)) {
        check();
      }
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("the real-time lane is stopped", interrupted);
    }
    check();
  }

  private void check() {
    RuntimeException why = failure;
    if (why != null) {
      throw why;
    }
  }

  /** Waits until all was acknowledged. */
  void finish() {
    put(END);
    try {
      thread.join();
    } catch (InterruptedException interrupted) {
      close();
      Thread.currentThread().interrupt();
      throw new IllegalStateException("the real-time lane is stopped", interrupted);
    }
    check();
  }

  /** Ends at once, whatever is under way. */
  @Override
  public void close() {
    stopped = true;
    RealtimeNode open = node;
    if (open != null) {
      open.close();
    }
    thread.interrupt();
    try {
      thread.join(END_MS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  // ---------------------------------------------------------------- the sender's thread
  private void run() {
    try {
      while (!stopped && !(ending && unacked.isEmpty())) {
        take();
        turn();
      }
      if (!stopped) {
        exchange(List.of(), true, true);
      }
    } catch (InterruptedException stop) {
      stopped = true;
    } catch (RuntimeException | Error why) {
      if (!stopped) {
        failure = why instanceof Failure ? (Failure) why : unexpected(why);
      }
    } finally {
      if (node != null) {
        node.close();
      }
    }
  }

  private Failure unexpected(Throwable why) {
    return new Failure(
        "the real-time lane's sender ended: " + why,
        "source " + spec.source,
        "a store and rows as planned",
        "see the cause; the real-time lane starts again from the metadata by itself",
        why);
  }

  private void take() throws InterruptedException {
    if (unacked.isEmpty()) {
      long left = STATUS_NS - (System.nanoTime() - statusNs);
      PendingWrite first = queue.poll(Math.max(0, left), TimeUnit.NANOSECONDS);
      if (first == null) {
        return;
      }
      unacked.add(first);
    }
    queue.drainTo(unacked, MOST_WRITES - unacked.size());
    if (!unacked.isEmpty() && unacked.get(unacked.size() - 1) == END) { // nothing comes after it
      unacked.remove(unacked.size() - 1);
      ending = true;
    }
  }

  /** Sends what may go. */
  private void turn() throws InterruptedException {
    long now = System.nanoTime();
    Collection<PendingCall> runs = runs();
    boolean putsStatus = now - statusNs >= STATUS_NS;
    if (!runs.isEmpty() && now - confirmedNs >= TRUST_NS) {
      exchange(List.of(), true, false); // throws where another deployment stands
    }
    boolean requests = putsStatus || partitions.size() > committedOffsets.size() || waits
        && now - requestedNs >= REQUEST_NS;
    if (!runs.isEmpty() || requests) {
      exchange(runs, requests, putsStatus);
    } else if (waits) {
      Thread.sleep(WAIT_MS);
    }
  }

  /**
   * Of each entity its next run; of a partition nothing beyond what may be ahead of its committed
   * offsets.
   */
  private Collection<PendingCall> runs() {
    waits = false;
    Map<PendingWrite.Entity, PendingCall> runs = new LinkedHashMap<>();
    for (PendingWrite write : unacked) {
      Long committedOffset = committedOffsets.get(write.entity.partition);
      if (committedOffset != null && write.offset - committedOffset < spec.ahead) {
        runs.computeIfAbsent(write.entity, PendingCall::new).add(write);
      } else {
        waits = true;
      }
    }
    return runs.values();
  }

  /**
   * One pipeline, again until it is answered.
   *
   * @param ask for the committed offsets, and whether the server run is still the same
   * @param say what the real-time lane has to say of itself; with `ask` only
   */
  private void exchange(Collection<PendingCall> runs, boolean requests, boolean putsStatus)
      throws InterruptedException {
    Set<Integer> requested = Set.copyOf(partitions.keySet());
    while (true) {
      if (stopped) {
        throw new InterruptedException();
      }
      commands.clear();
      runs.forEach(run -> run.to(commands, spec));
      if (requests) {
        node.requestMetadata(commands, requested);
      }
      if (putsStatus) {
        putStatus();
      }
      try {
        long sent = System.nanoTime();
        List<Object> replies = node.exchange(commands);
        if (requests) {
          // first: what was written into another server run is not acknowledged
          committedOffsets = node.committedOffsets(replies.get(runs.size()), requested);
          confirmedNs = sent;
          requestedNs = System.nanoTime();
        }
        if (putsStatus) {
          statusNs = System.nanoTime();
          replies.subList(runs.size() + 1, replies.size()).forEach(node::checked);
        }
        acknowledge(runs, replies);
        return;
      } catch (IOException broken) {
        again();
      }
    }
  }

  private void again() throws InterruptedException {
    if (stopped) {
      throw new InterruptedException();
    }
    reconnects++;
    node.close();
    node = connected();
  }

  /**
   * The server run is checked with each connection; IOException is retried, as long as patience
   * lasts.
   */
  private RealtimeNode connected() {
    long begun = System.nanoTime();
    long wait = LEAST_BACK_OFF_MS;
    while (true) {
      try {
        return RealtimeNode.open(spec);
      } catch (IOException absent) {
        if (stopped || System.nanoTime() - begun > TimeUnit.MILLISECONDS.toNanos(spec.patienceMs)) {
          throw new Failure(
              "the store does not answer: " + absent.getMessage(),
              spec.address.toString(),
              "an answer within " + spec.patienceMs + " ms",
              "is it up? slicewise status",
              absent);
        }
        try {
          Thread.sleep(wait);
        } catch (InterruptedException interrupted) {
          Thread.currentThread().interrupt();
          throw new IllegalStateException("the real-time lane is stopped", interrupted);
        }
        wait = Math.min(MOST_BACK_OFF_MS, 2 * wait);
      }
    }
  }

  private void acknowledge(Collection<PendingCall> runs, List<Object> replies)
      throws InterruptedException {
    long now = nowUs();
    boolean forgotten = false;
    int at = 0;
    for (PendingCall run : runs) {
      Object reply = replies.get(at++);
      if (reply instanceof Replies.Failed refused) {
        forgotten = refused.is("NOSCRIPT");
        if (!forgotten || vain == TRIES) {
          throw RealtimeNode.refusal(refused, spec.address + ", " + run.where());
        }
        continue;
      }
      long[] counts = ((List<?>) reply).stream().mapToLong(count -> (Long) count).toArray();
      RealtimeStatus status = partitions.get(run.entity.partition);
      status.replied(run.entity.unit.list != null, counts);
      boolean visible = run.entity.unit.list != null || counts[3] == 0;
      for (PendingWrite write : run.writes) {
        write.done = true;
        unackedBytes.addAndGet(-write.size());
        if (visible) {
          status.visible((now - write.kafkaTimeUs) / 1_000.0);
        }
      }
    }
    unacked.removeIf(write -> write.done);
    vain = forgotten ? vain + 1 : 0;
    if (forgotten) {
      try {
        node.loadScripts();
      } catch (IOException broken) {
        again(); // which loads them
      }
    }
  }

  private void putStatus() {
    long now = nowUs();
    for (RealtimeStatus status : partitions.values()) {
      long seen = status.seen; // before the queue is looked at: what was seen until then was in it
      boolean idle = queue.isEmpty();
      long first = Long.MAX_VALUE;
      for (PendingWrite write : unacked) {
        first = write.entity.partition == status.partition ? Math.min(first, write.offset) : first;
      }
      if (first != Long.MAX_VALUE) {
        status.acknowledged(first - 1);
      } else if (idle) {
        status.acknowledged(seen);
      }
      if (status.relieved) {
        continue; // another speaks for the partition
      }
      String text =
          status.text(now, reconnects, queue.size(), committedOffsets.get(status.partition), waits);
      commands.begin(3).word("SET").word(spec.statusKey + ":" + status.partition).word(text);
    }
  }

  private static long nowUs() {
    Instant now = Instant.now();
    return now.getEpochSecond() * 1_000_000 + now.getNano() / 1_000;
  }
}
