package io.slicewise.records;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.List;
import org.apache.avro.LogicalType;
import org.apache.avro.LogicalTypes;
import org.apache.avro.NameValidator;
import org.apache.avro.Schema;

/**
 * A record of Avro's binary encoding behind Confluent's five bytes: zero, and the id of its schema.
 *
 * <p>Read by the schema that it was written by. Every length is held against the bytes that are
 * there, so that no record takes more memory than it has bytes.
 */
final class Avro implements Format {
  private static final long serialVersionUID = 1L;
  private static final String NOT_AVRO = "not_avro";
  private static final int HEAD = 5;
  private static final int MAX_DEPTH = 999;

  private final Field[] fields;
  private final ColumnTree columns;
  private final Registry registry;

  Avro(Field[] fields, ColumnTree columns, Registry registry) {
    this.fields = fields;
    this.columns = columns;
    this.registry = registry;
  }

  @Override
  public String read(byte[] value, Object[] read) {
    if (value.length < HEAD || value[0] != 0) {
      return NOT_AVRO;
    }
    Cursor head = new Cursor(value, 1, HEAD);
    Cursor body = new Cursor(value, HEAD, value.length);
    try {
      int id = Integer.reverseBytes((int) head.fixed(4));
      Schema schema = registry.schema(id, Schema.class, Avro::parsed);
      if (schema.getType() != Schema.Type.RECORD) {
        return NOT_AVRO;
      }
      record(schema, columns, body, read, 0);
      return body.left() == 0 ? null : NOT_AVRO;
    } catch (Malformed bad) {
      return bad.getMessage().equals(Malformed.BAD_TEXT) ? Malformed.BAD_TEXT : NOT_AVRO;
    }
  }

  private static Schema parsed(Registry.Registered registered) {
    if (!registered.type().equals("AVRO")) {
      throw new IllegalArgumentException("it is of type " + registered.type());
    }
    // what a registry took is read: names and defaults bear on no byte of a record
    Schema.Parser parser = new Schema.Parser(NameValidator.NO_VALIDATION)
        .setValidateDefaults(false);
    registered.references().forEach(parser::parse);
    return parser.parse(registered.text());
  }

  private void record(Schema schema, ColumnTree at, Cursor in, Object[] read, int depth)
      throws Malformed {
    if (depth > MAX_DEPTH) {
      throw new Malformed("too deep");
    }
    for (Schema.Field field : schema.getFields()) {
      member(field.schema(), at == null ? null : at.member(field.name()), in, read, depth);
    }
  }

  private void member(Schema declared, ColumnTree at, Cursor in, Object[] read, int depth)
      throws Malformed {
    Schema schema = branch(declared, in);
    boolean isRecord = schema.getType() == Schema.Type.RECORD;
    if (at != null && at.column() != ColumnTree.INNER) {
      read[at.column()] = value(fields[at.column()], schema, in, depth);
    } else if (isRecord) {
      record(schema, at, in, read, depth + 1);
    } else {
      skip(schema, in, depth);
      if (at != null && schema.getType() != Schema.Type.NULL) {
        at.refuse(read);
      }
    }
  }

  private static Schema branch(Schema schema, Cursor in) throws Malformed {
    if (schema.getType() != Schema.Type.UNION) {
      return schema;
    }
    long index = in.zigzag();
    if (index < 0 || index >= schema.getTypes().size()) {
      throw new Malformed("no such branch");
    }
    return schema.getTypes().get((int) index);
  }

  private Object value(Field field, Schema schema, Cursor in, int depth) throws Malformed {
    switch (schema.getType()) {
      case NULL:
        return null;
      case INT:
        return whole(field, schema.getLogicalType(), int32(in));
      case LONG:
        return whole(field, schema.getLogicalType(), in.zigzag());
      case FLOAT:
        return field.ofReal(Float.intBitsToFloat((int) in.fixed(4)));
      case DOUBLE:
        return field.ofReal(Double.longBitsToDouble(in.fixed(8)));
      case BOOLEAN:
        return field.ofBoolean(bool(in));
      case STRING:
        return field.ofText(in.text(in.zigzag()));
      case ENUM:
        return field.ofText(symbol(schema, in));
      case BYTES:
        return decimal(field, schema.getLogicalType(), in.bytes(in.zigzag()));
      case FIXED:
        return decimal(field, schema.getLogicalType(), in.bytes(schema.getFixedSize()));
      case ARRAY:
        if (field.isArray()) {
          return array(field.element(), schema.getElementType(), in, depth);
        }
        skip(schema, in, depth);
        return Refused.WRONG_TYPE;
      default:
        skip(schema, in, depth);
        return Refused.WRONG_TYPE;
    }
  }

  private static Object whole(Field field, LogicalType logical, long value) {
    String name = logical == null ? "" : logical.getName();
    switch (name) {
      case "date":
        return field.ofDay(value);
      case "timestamp-millis":
        boolean inside = Math.abs(value / 1000) < Long.MAX_VALUE / 1_000_000;
        return field.ofMicros(inside ? value * 1000 : Long.MIN_VALUE);
      case "timestamp-micros":
        return field.ofMicros(value);
      case "timestamp-nanos":
        return field.ofMicros(Math.floorDiv(value, 1000));
      default:
        return field.ofWhole(value);
    }
  }

  private static Object decimal(Field field, LogicalType logical, byte[] unscaled) {
    if (!(logical instanceof LogicalTypes.Decimal) || unscaled.length == 0) {
      return Refused.WRONG_TYPE;
    }
    return field.ofDecimal(new BigDecimal(new BigInteger(unscaled), ((LogicalTypes.Decimal) logical)
        .getScale()));
  }

  private Object array(Field element, Schema of, Cursor in, int depth) throws Malformed {
    List<Object> elements = new ArrayList<>();
    Object refused = null;
    for (long count = block(in); count != 0; count = block(in)) {
      for (long i = 0; i < count; i++) {
        Object value = value(element, branch(of, in), in, depth);
        refused = refused == null && value instanceof Refused ? value : refused;
        elements.add(value);
      }
    }
    return refused != null ? refused : elements;
  }

  /** How many items follow. An item without bytes is no item: there are never more than bytes. */
  private static long block(Cursor in) throws Malformed {
    long count = in.zigzag();
    if (count < 0) {
      in.zigzag(); // its size
      count = -count;
    }
    if (count < 0 || count > in.left()) {
      throw new Malformed("more items than bytes");
    }
    return count;
  }

  private void skip(Schema declared, Cursor in, int depth) throws Malformed {
    Schema schema = branch(declared, in);
    switch (schema.getType()) {
      case NULL:
        return;
      case INT:
        int32(in);
        return;
      case LONG:
        in.zigzag();
        return;
      case FLOAT:
        in.skip(4);
        return;
      case DOUBLE:
        in.skip(8);
        return;
      case BOOLEAN:
        bool(in);
        return;
      case ENUM:
        symbol(schema, in);
        return;
      case STRING:
      case BYTES:
        in.skip(in.zigzag());
        return;
      case FIXED:
        in.skip(schema.getFixedSize());
        return;
      case RECORD:
        record(schema, null, in, null, depth + 1);
        return;
      default:
        items(schema, in, depth + 1);
    }
  }

  private void items(Schema schema, Cursor in, int depth) throws Malformed {
    if (depth > MAX_DEPTH) {
      throw new Malformed("too deep");
    }
    boolean isMap = schema.getType() == Schema.Type.MAP;
    Schema of = isMap ? schema.getValueType() : schema.getElementType();
    for (long count = block(in); count != 0; count = block(in)) {
      for (long i = 0; i < count; i++) {
        if (isMap) {
          in.skip(in.zigzag());
        }
        skip(of, in, depth);
      }
    }
  }

  private static long int32(Cursor in) throws Malformed {
    long value = in.zigzag();
    if (value != (int) value) {
      throw new Malformed("an int of more than 32 bits");
    }
    return value;
  }

  private static boolean bool(Cursor in) throws Malformed {
    int value = in.next();
    if (value > 1) {
      throw new Malformed("no boolean");
    }
    return value == 1;
  }

  private static String symbol(Schema schema, Cursor in) throws Malformed {
    long index = in.zigzag();
    if (index < 0 || index >= schema.getEnumSymbols().size()) {
      throw new Malformed("no such symbol");
    }
    return schema.getEnumSymbols().get((int) index);
  }
}
