package io.slicewise.spark;

import java.io.ByteArrayOutputStream;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The msgpack of what stores and members hold: nil, integers, doubles, byte strings, texts, arrays, maps; shortest forms. */
final class MessagePack {
  private final ByteArrayOutputStream out = new ByteArrayOutputStream();

  byte[] bytes() {
    return out.toByteArray();
  }

  void array(int size) {
    if (size < 16) {
      out.write(0x90 | size);
    } else if (size < 1 << 16) {
      big(0xdc, size, Short.BYTES);
    } else {
      big(0xdd, size, Integer.BYTES);
    }
  }

  void nil() {
    out.write(0xc0);
  }

  void number(double value) {
    big(0xcb, Double.doubleToRawLongBits(value), Long.BYTES);
  }

  void number(long value) {
    if (value >= -32 && value < 128) {
      out.write((int) value);
    } else if (value >= 0) {
      int form = value < 1 << 8 ? 0 : value < 1 << 16 ? 1 : value < 1L << 32 ? 2 : 3;
      big(0xcc + form, value, 1 << form);
    } else {
      int form = value >= Byte.MIN_VALUE ? 0 : value >= Short.MIN_VALUE ? 1 : value >= Integer.MIN_VALUE ? 2 : 3;
      big(0xd0 + form, value, 1 << form);
    }
  }

  void binary(byte[] value) {
    int form = value.length < 1 << 8 ? 0 : value.length < 1 << 16 ? 1 : 2;
    big(0xc4 + form, value.length, 1 << form);
    out.writeBytes(value);
  }

  private void big(int kind, long value, int width) {
    out.write(kind);
    for (int shift = 8 * (width - 1); shift >= 0; shift -= 8) {
      out.write((int) (value >>> shift));
    }
  }

  /** The value of these bytes: null, Long, String, byte[], List or Map. IllegalArgumentException for others. */
  static Object read(byte[] packed) {
    ByteBuffer in = ByteBuffer.wrap(packed);
    try {
      Object value = value(in);
      if (in.hasRemaining()) {
        throw new IllegalArgumentException("something follows the value");
      }
      return value;
    } catch (BufferUnderflowException cut) {
      throw new IllegalArgumentException("the value is cut", cut);
    }
  }

  private static Object value(ByteBuffer in) {
    int kind = in.get() & 0xff;
    if (kind < 0x80 || kind >= 0xe0) {
      return (long) (byte) kind;
    } else if (kind < 0x90) {
      return map(in, kind & 0xf);
    } else if (kind < 0xa0) {
      return list(in, kind & 0xf);
    } else if (kind < 0xc0) {
      return text(in, kind & 0x1f);
    }
    return switch (kind) {
      case 0xc0 -> null;
      case 0xc4 -> raw(in, in.get() & 0xff);
      case 0xc5 -> raw(in, in.getShort() & 0xffff);
      case 0xc6 -> raw(in, in.getInt());
      case 0xcc -> (long) (in.get() & 0xff);
      case 0xcd -> (long) (in.getShort() & 0xffff);
      case 0xce -> in.getInt() & 0xffff_ffffL;
      case 0xcf, 0xd3 -> in.getLong();
      case 0xd0 -> (long) in.get();
      case 0xd1 -> (long) in.getShort();
      case 0xd2 -> (long) in.getInt();
      case 0xd9 -> text(in, in.get() & 0xff);
      case 0xda -> text(in, in.getShort() & 0xffff);
      case 0xdc -> list(in, in.getShort() & 0xffff);
      case 0xdd -> list(in, in.getInt());
      case 0xde -> map(in, in.getShort() & 0xffff);
      case 0xdf -> map(in, in.getInt());
      default -> throw new IllegalArgumentException("a value of kind " + kind);
    };
  }

  private static byte[] raw(ByteBuffer in, int size) {
    if (size < 0 || size > in.remaining()) {
      throw new BufferUnderflowException();
    }
    byte[] value = new byte[size];
    in.get(value);
    return value;
  }

  private static String text(ByteBuffer in, int size) {
    return new String(raw(in, size), StandardCharsets.UTF_8);
  }

  private static List<Object> list(ByteBuffer in, int size) {
    List<Object> found = new ArrayList<>();
    for (int i = 0; i < size; i++) {
      found.add(value(in));
    }
    return found;
  }

  private static Map<Object, Object> map(ByteBuffer in, int size) {
    Map<Object, Object> found = new LinkedHashMap<>();
    for (int i = 0; i < size; i++) {
      found.put(value(in), value(in));
    }
    return found;
  }
}
