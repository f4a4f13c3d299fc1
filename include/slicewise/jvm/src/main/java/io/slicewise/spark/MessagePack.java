package io.slicewise.spark;

import java.io.ByteArrayOutputStream;

/** The msgpack of arrays in members, in its shortest forms: nil, integers, doubles, byte strings. */
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
}
