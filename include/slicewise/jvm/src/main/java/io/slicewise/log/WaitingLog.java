package io.slicewise.log;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's own Kafka source for micro-batches, of which a trigger without records waits for the next
 * one ({@link WaitingStream}); options, schema, plans and readers are Spark's.
 */
public final class WaitingLog implements TableProvider {
  private static final String KAFKA = "org.apache.spark.sql.kafka010.KafkaSourceProvider";

  private final TableProvider kafka = kafka();

  private static TableProvider kafka() {
    try {
      ClassLoader loader = Thread.currentThread().getContextClassLoader();
      Object made = Class.forName(KAFKA, true, loader).getDeclaredConstructor().newInstance();
      return (TableProvider) made;
    } catch (ReflectiveOperationException missing) {
      throw new IllegalStateException(missing);
    }
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return kafka.inferSchema(options);
  }

  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new Topic((SupportsRead) kafka.getTable(schema, partitioning, properties));
  }

  private record Topic(SupportsRead kafka) implements SupportsRead {
    @Override
    public String name() {
      return kafka.name();
    }

    @Override
    public Column[] columns() {
      return kafka.columns();
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.MICRO_BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      return () -> new Read(kafka.newScanBuilder(options).build(), options);
    }
  }

  private record Read(Scan kafka, CaseInsensitiveStringMap options) implements Scan {
    @Override
    public StructType readSchema() {
      return kafka.readSchema();
    }

    @Override
    public String description() {
      return kafka.description();
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
      return new WaitingStream(
          kafka.toMicroBatchStream(checkpoint), new LogEnd(options.asCaseSensitiveMap()));
    }
  }
}
