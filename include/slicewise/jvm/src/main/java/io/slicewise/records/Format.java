package io.slicewise.records;

import java.io.Serializable;

/** How a record's bytes become the values of columns. Holds no state between records. */
interface Format extends Serializable {
  /**
   * Reads every column that the record has into its place in `read`: a value, null, or why it is
   * none.
   *
   * @return null, or the reason why the bytes are no record at all
   */
  String read(byte[] value, Object[] read);

  static Format of(String name, String registry, Field[] fields, ColumnTree columns) {
    switch (name) {
      case "json":
        return new Json(fields, columns);
      case "avro":
        return new Avro(fields, columns, new Registry(registry));
      case "protobuf":
        return new Protobuf(fields, columns, new Registry(registry));
      default:
        throw new IllegalArgumentException("no format " + name);
    }
  }
}
