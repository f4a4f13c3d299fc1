package io.slicewise.log;

import io.slicewise.records.Spec;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * The end of a log, watched by a consumer of its own: the broker answers its fetch with the next
 * record. It begins with the first wait, and fetches nothing between two of them but the one batch
 * that ended the last.
 */
final class LogEnd implements WaitingStream.Signal {
  private static final String PREFIX = "kafka.";

  private final Supplier<Consumer<byte[], byte[]>> making;
  private Consumer<byte[], byte[]> consumer;

  /** The options of Spark's source; those of Kafka's clients begin with a prefix. */
  LogEnd(Map<String, String> options) {
    this(() -> made(options));
  }

  LogEnd(Supplier<Consumer<byte[], byte[]>> making) {
    this.making = making;
  }

  @Override
  public void await(String offsets, long waitMs) throws InterruptedException {
    Map<TopicPartition, Long> from = parsed(offsets);
    try {
      if (consumer == null) {
        consumer = making.get();
      }
      if (!consumer.assignment().equals(from.keySet())) {
        consumer.assign(from.keySet());
      }
      from.forEach(consumer::seek);
      long until = System.nanoTime() + waitMs * 1_000_000;
      for (long left; (left = until - System.nanoTime()) > 0; ) {
        // a transaction's end is no record, and moves the position
        if (!consumer.poll(Duration.ofNanos(left)).isEmpty() || moved(from)) {
          return;
        }
      }
    } catch (InterruptException stopped) {
      Thread.interrupted(); // it is raised, and what is closed then is not to meet it once more
      throw new InterruptedException(stopped.getMessage());
    } catch (KafkaException failed) {
      close(); // what is wrong with the log Spark finds, and tells, as without a wait
    }
  }

  private boolean moved(Map<TopicPartition, Long> from) {
    return from.entrySet().stream()
        .anyMatch(start -> consumer.position(start.getKey()) != start.getValue());
  }

  private static Consumer<byte[], byte[]> made(Map<String, String> options) {
    Properties properties = new Properties();
    options.forEach(
        (name, value) -> {
          if (name.startsWith(PREFIX)) {
            properties.put(name.substring(PREFIX.length()), value);
          }
        });
    properties.put("enable.auto.commit", "false");
    properties.put("auto.offset.reset", "none");
    properties.put("allow.auto.create.topics", "false");
    // that there is a record is all that is wanted, and a broker gives one batch at least
    properties.put("fetch.max.bytes", "1");
    properties.put("max.partition.fetch.bytes", "1");
    properties.put("max.poll.records", "1");
    properties.put("fetch.max.wait.ms", Long.toString(WaitingStream.WAIT_MS / 2));
    ByteArrayDeserializer raw = new ByteArrayDeserializer();
    return new KafkaConsumer<>(properties, raw, raw);
  }

  private static Map<TopicPartition, Long> parsed(String offsets) {
    Map<TopicPartition, Long> from = new HashMap<>();
    Spec.parsed(offsets)
        .properties()
        .forEach(
            topic ->
                topic.getValue()
                    .properties()
                    .forEach(
                        start ->
                            from.put(
                                new TopicPartition(
                                    topic.getKey(), Integer.parseInt(start.getKey())),
                                start.getValue().asLong())));
    return from;
  }

  @Override
  public void close() {
    Consumer<byte[], byte[]> closed = consumer;
    consumer = null;
    if (closed != null) {
      boolean interrupted = Thread.interrupted();
      try {
        closed.close(Duration.ZERO);
      } finally {
        if (interrupted) {
          Thread.currentThread().interrupt();
        }
      }
    }
  }
}
