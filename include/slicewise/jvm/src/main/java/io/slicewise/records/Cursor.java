package io.slicewise.records;

import java.nio.charset.StandardCharsets;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads from a range of bytes, and never beyond it, nor more than is there. */
final class Cursor {
  private static final int MAX_SHIFT = 63;
  private final byte[] bytes;
  private final int end;
  private int at;

  Cursor(byte[] bytes, int start, int end) {
    this.bytes = bytes;
    this.at = start;
    this.end = end;
  }

  int left() {
    return end - at;
  }

  int next() throws Malformed {
    return bytes[skip(1)] & 0xff;
  }

  /** Seven bits a byte, the least first; at most 64 of them. */
  long varint() throws Malformed {
    long value = 0;
    for (int shift = 0; shift <= MAX_SHIFT; shift += 7) {
      int next = next();
      value |= (long) (next & 0x7f) << shift;
      if (next < 0x80) {
        if (shift == MAX_SHIFT && next > 1) {
          break;
        }
        return value;
      }
    }
    throw new Malformed("a number of more than 64 bits");
  }

  long zigzag() throws Malformed {
    long value = varint();
    return (value >>> 1) ^ -(value & 1);
  }

  /** So many bytes as a number, the least first. */
  long fixed(int count) throws Malformed {
    int start = skip(count);
    long value = 0;
    for (int i = count - 1; i >= 0; i--) {
      value = value << 8 | bytes[start + i] & 0xff;
    }
    return value;
  }

  /** The next bytes as a range of their own. */
  Cursor part(long count) throws Malformed {
    int start = skip(count);
    return new Cursor(bytes, start, at);
  }

  byte[] bytes(long count) throws Malformed {
    int start = skip(count);
    return java.util.Arrays.copyOfRange(bytes, start, at);
  }

  String text(long count) throws Malformed {
    byte[] utf8 = bytes(count);
    if (!UTF8String.fromBytes(utf8).isValid()) {
      throw new Malformed(Malformed.BAD_TEXT);
    }
    return new String(utf8, StandardCharsets.UTF_8);
  }

  /** Where the bytes that it passes began. */
  int skip(long count) throws Malformed {
    if (count < 0 || count > left()) {
      throw new Malformed("longer than the record");
    }
    int start = at;
    at += (int) count;
    return start;
  }
}
