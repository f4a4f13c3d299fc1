package io.slicewise.records;

import java.util.ArrayList;
import java.util.Map;

/**
 * A record of Protobuf behind Confluent's head: zero, the id of its schema, which message it is.
 *
 * <p>A member of proto3 without presence that is not there is its zero, as every reader of Protobuf
 * has it; one with presence is null. Unknown members are passed.
 */
final class Protobuf implements Format {
  private static final long serialVersionUID = 1L;
  private static final String NOT_PROTOBUF = "not_protobuf";
  private static final String TIMESTAMP = "google.protobuf.Timestamp";
  private static final int HEAD = 5;
  private static final int MAX_DEPTH = 100;
  private static final long MOST_SECONDS = 1L << 40;
  private static final int VARINT = 0;
  private static final int FIXED64 = 1;
  private static final int COUNTED = 2;
  private static final int FIXED32 = 5;

  private final Field[] fields;
  private final ColumnTree columns;
  private final Registry registry;

  Protobuf(Field[] fields, ColumnTree columns, Registry registry) {
    this.fields = fields;
    this.columns = columns;
    this.registry = registry;
  }

  @Override
  public String read(byte[] value, Object[] read) {
    if (value.length <= HEAD || value[0] != 0) {
      return NOT_PROTOBUF;
    }
    Cursor head = new Cursor(value, 1, HEAD);
    Cursor body = new Cursor(value, HEAD, value.length);
    try {
      int id = Integer.reverseBytes((int) head.fixed(4));
      ProtoFile.Message message = registry.schema(id, ProtoFile.class, ProtoFile::of)
          .message(indexes(body));
      if (message == null) {
        return NOT_PROTOBUF;
      }
      message(message, columns, body, read, 0);
      return null;
    } catch (Malformed bad) {
      return bad.getMessage().equals(Malformed.BAD_TEXT) ? Malformed.BAD_TEXT : NOT_PROTOBUF;
    }
  }

  private static int[] indexes(Cursor in) throws Malformed {
    long count = in.zigzag();
    if (count < 0 || count > MAX_DEPTH) {
      throw new Malformed("no path of messages");
    }
    int[] indexes = new int[count == 0 ? 1 : (int) count]; // none stands for the first
    for (int i = 0; i < count; i++) {
      long index = in.zigzag();
      indexes[i] = index == (int) index ? (int) index : -1;
    }
    return indexes;
  }

  private void message(ProtoFile.Message of, ColumnTree at, Cursor in, Object[] read, int depth)
      throws Malformed {
    if (depth > MAX_DEPTH) {
      throw new Malformed("too deep");
    }
    if (at != null) {
      zeros(of, at, read);
    }
    while (in.left() > 0) {
      long tag = in.varint();
      int wire = (int) (tag & 7);
      if (tag >>> 3 == 0 || tag >>> 3 >= 1 << 29) {
        throw new Malformed("no number of a member");
      }
      ProtoFile.Member member = of.members.get((int) (tag >>> 3));
      ColumnTree inside = member == null || at == null ? null : at.member(member.name);
      if (inside == null || !written(member, wire)) {
        pass(wire, in);
      } else {
        member(member, inside, wire, in, read, depth);
      }
    }
  }

  private void member(ProtoFile.Member member, ColumnTree at, int wire, Cursor in, Object[] read,
      int depth)
      throws Malformed {
    if (at.column() == ColumnTree.INNER) {
      if (member.message != null && !member.repeated) {
        message(member.message, at, in.part(in.varint()), read, depth + 1);
      } else {
        pass(wire, in);
        at.refuse(read);
      }
      return;
    }
    Field field = fields[at.column()];
    if (!member.repeated) {
      read[at.column()] = field.isArray() ? refused(wire, in) : value(field, member, in);
    } else if (!field.isArray()) {
      read[at.column()] = refused(wire, in);
    } else if (wire == COUNTED && wireOf(member) != COUNTED) { // packed
      for (Cursor packed = in.part(in.varint()); packed.left() > 0; ) {
        add(at.column(), value(field.element(), member, packed), read);
      }
    } else {
      add(at.column(), value(field.element(), member, in), read);
    }
  }

  private static Object refused(int wire, Cursor in) throws Malformed {
    pass(wire, in);
    return Refused.WRONG_TYPE;
  }

  private static void add(int column, Object value, Object[] read) {
    if (value instanceof Refused || read[column] instanceof Refused) {
      read[column] = read[column] instanceof Refused ? read[column] : value;
      return;
    }
    ((Values) read[column]).add(value); // an empty one stands where none came
  }

  /** A list that this record's members grow. */
  private static final class Values extends ArrayList<Object> {
    private static final long serialVersionUID = 1L;
  }

  /** What members say that are not there. */
  private void zeros(ProtoFile.Message of, ColumnTree at, Object[] read) {
    for (ProtoFile.Member member : of.members.values()) {
      ColumnTree inside = at.member(member.name);
      if (inside == null || inside.column() == ColumnTree.INNER || read[inside.column()] != null) {
        continue;
      }
      Field field = fields[inside.column()];
      if (member.repeated) {
        read[inside.column()] = field.isArray() ? new Values() : Refused.WRONG_TYPE;
      } else if (!member.presence && member.message == null) {
        read[inside.column()] = field.isArray() ? Refused.WRONG_TYPE : zero(field, member);
      }
    }
  }

  private static Object zero(Field field, ProtoFile.Member member) {
    if (member.symbols != null) {
      return symbol(field, member.symbols, 0);
    }
    switch (member.scalar) {
      case "string":
        return field.ofText("");
      case "bytes":
        return Refused.WRONG_TYPE;
      case "bool":
        return field.ofBoolean(false);
      case "double":
      case "float":
        return field.ofReal(0);
      default:
        return field.ofWhole(0);
    }
  }

  /** Is a member of this type written so? If not, it is one that is not known. */
  private static boolean written(ProtoFile.Member member, int wire) {
    int own = wireOf(member);
    return wire == own || member.repeated && wire == COUNTED;
  }

  private static int wireOf(ProtoFile.Member member) {
    if (member.message != null) {
      return COUNTED;
    }
    if (member.symbols != null) {
      return VARINT;
    }
    switch (member.scalar) {
      case "string":
      case "bytes":
        return COUNTED;
      case "double":
      case "fixed64":
      case "sfixed64":
        return FIXED64;
      case "float":
      case "fixed32":
      case "sfixed32":
        return FIXED32;
      default:
        return VARINT;
    }
  }

  private static Object value(Field field, ProtoFile.Member member, Cursor in) throws Malformed {
    if (member.message != null) {
      Cursor part = in.part(in.varint());
      return member.message.name.equals(TIMESTAMP) ? instant(field, part) : Refused.WRONG_TYPE;
    }
    if (member.symbols != null) {
      return symbol(field, member.symbols, (int) in.varint());
    }
    switch (member.scalar) {
      case "string":
        return field.ofText(in.text(in.varint()));
      case "bytes":
        in.skip(in.varint());
        return Refused.WRONG_TYPE;
      case "bool":
        return field.ofBoolean(in.varint() != 0);
      case "double":
        return field.ofReal(Double.longBitsToDouble(in.fixed(8)));
      case "float":
        return field.ofReal(Float.intBitsToFloat((int) in.fixed(4)));
      case "fixed32":
        return field.ofWhole(in.fixed(4));
      case "sfixed32":
        return field.ofWhole((int) in.fixed(4));
      case "int32":
        return field.ofWhole((int) in.varint());
      case "uint32":
        return field.ofWhole(in.varint() & 0xffff_ffffL);
      case "sint32":
        return field.ofWhole((int) in.zigzag());
      case "sint64":
        return field.ofWhole(in.zigzag());
      case "sfixed64":
        return field.ofWhole(in.fixed(8));
      case "fixed64":
        return unsigned(field, in.fixed(8));
      case "uint64":
        return unsigned(field, in.varint());
      default:
        return field.ofWhole(in.varint());
    }
  }

  private static Object unsigned(Field field, long value) {
    Object whole = field.ofWhole(value);
    return value < 0 && whole != Refused.WRONG_TYPE ? Refused.OUT_OF_RANGE : whole;
  }

  private static Object symbol(Field field, Map<Integer, String> symbols, int number) {
    Object asNumber = field.ofWhole(number);
    if (asNumber != Refused.WRONG_TYPE) {
      return asNumber;
    }
    return symbols.containsKey(number) ? field.ofText(symbols.get(number)) : Refused.OUT_OF_RANGE;
  }

  private static Object instant(Field field, Cursor in) throws Malformed {
    long seconds = 0;
    long nanos = 0;
    while (in.left() > 0) {
      long tag = in.varint();
      if (tag == 1 << 3) {
        seconds = in.varint();
      } else if (tag == 2 << 3) {
        nanos = (int) in.varint();
      } else {
        pass((int) (tag & 7), in);
      }
    }
    boolean inside = Math.abs(seconds) < MOST_SECONDS && nanos >= 0 && nanos < 1_000_000_000;
    return field.ofMicros(inside ? seconds * 1_000_000 + nanos / 1000 : Long.MIN_VALUE);
  }

  private static void pass(int wire, Cursor in) throws Malformed {
    switch (wire) {
      case VARINT:
        in.varint();
        return;
      case FIXED64:
        in.skip(8);
        return;
      case COUNTED:
        in.skip(in.varint());
        return;
      case FIXED32:
        in.skip(4);
        return;
      default:
        throw new Malformed("no such wire type");
    }
  }
}
