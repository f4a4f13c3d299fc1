package io.slicewise.wire;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.util.List;
import org.msgpack.core.MessageBufferPacker;
import org.msgpack.core.MessagePack;
import org.msgpack.core.MessagePacker;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A column type has one stored form, to the byte that of `aggregates/kernel/values.py` and
 * `codec/arrays.py`: so a row that is written here is the row that Python would have written.
 *
 * <p>Integers and instants 8 bytes, dates 8 bytes of days, doubles 8 bytes (one NaN, one zero),
 * booleans a byte; texts, decimals and arrays are bytes of any number.
 */
abstract class Stored {
  private static final long QUIET_NAN = 0x7ff8_0000_0000_0000L;
  private static final BigInteger DECIMAL_BIAS = BigInteger.ONE.shiftLeft(127);
  private static final int DECIMAL_BYTES = 16;

  /** Bytes in the fixed part of a member; 0: as many as {@link #bytes} gives, after it. */
  final int width;

  private Stored(int width) {
    this.width = width;
  }

  /** Of a value that is not null, where it has a width. */
  long fixed(Object value) {
    throw new IllegalStateException("a value of no fixed width");
  }

  /** Of a value that is not null, where it has none. */
  byte[] bytes(Object value) {
    throw new IllegalStateException("a value of a fixed width");
  }

  /** As an element of an array. */
  abstract void pack(Object value, MessagePacker into) throws IOException;

  /** The form of a type as definitions name it (`features/schema/types.py`). */
  static Stored of(String kind) {
    if (kind.startsWith("array<")) {
      return new ArrayOf(of(kind.substring("array<".length(), kind.length() - 1).strip()));
    }
    if (kind.startsWith("decimal(")) {
      return new Decimal(scale(kind));
    }
    return switch (kind) {
      case "string" -> new Text();
      case "long", "timestamp_us" -> new Whole();
      case "date" -> new Day();
      case "double" -> new Real();
      case "boolean" -> new Truth();
      default -> throw new IllegalArgumentException("no stored form of type " + kind);
    };
  }

  /** Digits after the point of a type decimal(precision,scale). */
  static int scale(String kind) {
    return Integer.parseInt(kind.substring(kind.indexOf(',') + 1, kind.length() - 1).strip());
  }

  /**
   * Days since 1970 of a date. The old class java.sql.Date has no such days as those of October
   * 1582: refused.
   */
  static long days(Object date) {
    if (date instanceof Number) {
      return ((Number) date).longValue();
    }
    if (date instanceof LocalDate) {
      return ((LocalDate) date).toEpochDay();
    }
    throw new Failure(
        "a date as a " + date.getClass().getName(),
        "a row of the real-time lane",
        "a java.time.LocalDate",
        "set spark.sql.datetime.java8API.enabled for the session");
  }

  private static class Whole extends Stored {
    Whole() {
      super(Long.BYTES);
    }

    @Override
    long fixed(Object value) {
      return ((Number) value).longValue();
    }

    @Override
    void pack(Object value, MessagePacker into) throws IOException {
      into.packLong(fixed(value));
    }
  }

  private static final class Day extends Whole {
    @Override
    long fixed(Object value) {
      return days(value);
    }
  }

  private static final class Real extends Stored {
    Real() {
      super(Long.BYTES);
    }

    @Override
    long fixed(Object value) {
      double number = ((Number) value).doubleValue();
      // -0.0 + 0.0 is +0.0
      return number != number ? QUIET_NAN : Double.doubleToRawLongBits(number + 0.0);
    }

    @Override
    void pack(Object value, MessagePacker into) throws IOException {
      into.packDouble(Double.longBitsToDouble(fixed(value)));
    }
  }

  private static final class Truth extends Stored {
    Truth() {
      super(1);
    }

    @Override
    long fixed(Object value) {
      return (Boolean) value ? 1 : 0;
    }

    @Override
    void pack(Object value, MessagePacker into) throws IOException {
      into.packLong(fixed(value));
    }
  }

  private abstract static class Bytes extends Stored {
    Bytes() {
      super(0);
    }

    @Override
    void pack(Object value, MessagePacker into) throws IOException {
      byte[] raw = bytes(value);
      into.packBinaryHeader(raw.length).writePayload(raw);
    }
  }

  private static final class Text extends Bytes {
    @Override
    byte[] bytes(Object value) {
      return ((String) value).getBytes(StandardCharsets.UTF_8);
    }
  }

  private static final class Decimal extends Bytes {
    private final int scale;

    Decimal(int scale) {
      this.scale = scale;
    }

    @Override
    byte[] bytes(Object value) {
      BigInteger key = ((BigDecimal) value).setScale(scale).unscaledValue().add(DECIMAL_BIAS);
      byte[] shortest = key.toByteArray(); // with a sign byte, or fewer than all
      byte[] whole = new byte[DECIMAL_BYTES];
      int from = Math.max(0, shortest.length - DECIMAL_BYTES);
      int size = shortest.length - from;
      System.arraycopy(shortest, from, whole, DECIMAL_BYTES - size, size);
      return whole;
    }
  }

  private static final class ArrayOf extends Bytes {
    // an array of keys is short, and the usual buffer of 8 KiB costs more than it
    private static final MessagePack.PackerConfig PACKED = new MessagePack.PackerConfig()
        .withBufferSize(256);

    private final Stored element;

    ArrayOf(Stored element) {
      this.element = element;
    }

    @Override
    byte[] bytes(Object array) {
      List<?> values =
          array instanceof scala.collection.Seq
              ? CollectionConverters.asJava((scala.collection.Seq<?>) array)
              : (List<?>) array;
      try (MessageBufferPacker packed = PACKED.newBufferPacker()) {
        packed.packArrayHeader(values.size());
        for (Object value : values) {
          if (value == null) {
            packed.packNil();
          } else {
            element.pack(value, packed);
          }
        }
        return packed.toByteArray();
      } catch (IOException never) { // it writes to memory
        throw new UncheckedIOException(never);
      }
    }
  }
}
