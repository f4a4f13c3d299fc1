package io.slicewise.log;

import com.fasterxml.jackson.databind.JsonNode;
import io.slicewise.records.Spec;
import io.slicewise.records.Versions;
import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Follows a topic from given offsets and writes its records to standard output as columns, in
 * offset order within each partition; it is its reader's child and ends with it.
 *
 * <p>The first line of standard input says what to read, as JSON. A frame is of one partition: four
 * bytes, how long its head is; the head, JSON: partition, rows, the first offset that it does not
 * reach, and the sizes of its buffers; then the buffers, each padded to eight bytes: offsets, Kafka
 * times (microseconds), whether each record is good (a byte), event times, and those of the kept
 * columns ({@link Column}). A frame without rows says how far the log was read.
 */
public final class LogReader {
  static final int LOST = 3;
  private static final Duration POLL = Duration.ofMillis(200);
  private static final long US_PER_MS = 1_000L;

  private final JsonNode given;
  private final Versions reader;
  private final DataOutputStream out;
  private final Map<TopicPartition, Long> ends = new HashMap<>();

  private LogReader(JsonNode given, DataOutputStream out) {
    this.given = given;
    this.reader = Versions.of(given.get("versions").toString());
    this.out = out;
  }

  public static void main(String[] arguments) throws IOException {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    JsonNode given = Spec.parsed(in.readLine());
    DataOutputStream out =
        new DataOutputStream(new BufferedOutputStream(new FileOutputStream(FileDescriptor.out),
            1 << 16));
    Thread watch = new Thread(() -> endWith(in), "whoever reads");
    watch.setDaemon(true);
    watch.start();
    int code = 0;
    try {
      new LogReader(given, out).run();
    } catch (OffsetOutOfRangeException lost) {
      System.err.println("log_reader_lost " + lost.getMessage());
      code = LOST;
    } catch (IOException closed) {
      code = 0; // whoever reads is gone
    } catch (RuntimeException failed) {
      failed.printStackTrace();
      code = 1;
    }
    Runtime.getRuntime().halt(code);
  }

  /** Standard input ends when whoever reads does, however that was. */
  private static void endWith(BufferedReader in) {
    try {
      while (in.readLine() != null) {
        continue;
      }
    } catch (IOException gone) {
      // as when it ends
    }
    Runtime.getRuntime().halt(0);
  }

  private void run() throws IOException {
    Properties options = new Properties();
    given.get("options").properties()
        .forEach(option -> options.put(option.getKey(), option.getValue().asText()));
    ByteArrayDeserializer raw = new ByteArrayDeserializer();
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options, raw, raw)) {
      String topic = given.get("topic").asText();
      given
          .get("start")
          .properties()
          .forEach(
              start -> ends.put(new TopicPartition(topic, Integer.parseInt(start.getKey())),
                  start.getValue().asLong()));
      consumer.assign(ends.keySet());
      ends.forEach(consumer::seek);
      while (true) {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(POLL);
        for (TopicPartition partition : List.copyOf(ends.keySet())) {
          long end = consumer.position(partition);
          if (end != ends.get(partition)) {
            write(partition.partition(), records.records(partition), end);
            ends.put(partition, end);
          }
        }
        out.flush();
      }
    }
  }

  private void write(int partition, List<ConsumerRecord<byte[], byte[]>> records, long end)
      throws IOException {
    Column.Bytes offsets = new Column.Bytes();
    Column.Bytes times = new Column.Bytes();
    Column.Bytes good = new Column.Bytes();
    Column eventTimes = new Column.Longs();
    List<Column> columns = new ArrayList<>();
    reader.kept().forEach(field -> columns.add(Column.of(field)));
    for (ConsumerRecord<byte[], byte[]> record : records) {
      long kafkaTimeUs = record.timestamp() * US_PER_MS;
      Object[] row = reader.read(record.value(), kafkaTimeUs, partition, record.offset());
      offsets.putLong(record.offset());
      times.putLong(kafkaTimeUs);
      good.putByte(row[1] == null ? 1 : 0);
      eventTimes.add(row[0]);
      for (int i = 0; i < columns.size(); i++) {
        columns.get(i).add(row[2 + i]);
      }
    }
    List<Column.Bytes> buffers = new ArrayList<>(List.of(offsets, times, good));
    eventTimes.buffers(buffers);
    columns.forEach(column -> column.buffers(buffers));
    String sizes = buffers.stream().map(buffer -> Integer.toString(buffer.size()))
        .collect(Collectors.joining(","));
    String head =
        String.format(
            "{\"partition\":%d,\"rows\":%d,\"end\":%d,\"sizes\":[%s]}", partition, records.size(),
            end, sizes);
    byte[] text = head.getBytes(StandardCharsets.US_ASCII);
    out.writeInt(text.length);
    out.write(text);
    for (Column.Bytes buffer : buffers) {
      buffer.to(out);
    }
  }
}
