package io.slicewise.log;

import io.slicewise.records.Field;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.List;

/**
 * Values of one column as Arrow's buffers hold them, little-endian: what is there (a byte each,
 * empty where all is), then the values. Texts and lists have ends before their values; the buffers
 * of a list's elements follow.
 */
abstract class Column {
  private static final VarHandle INT =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

  /** Bytes that grow. */
  static final class Bytes {
    private byte[] buffer = new byte[1 << 12];
    private int size;

    private int room(int more) {
      int at = size;
      size = Math.addExact(size, more);
      if (size > buffer.length) {
        buffer = Arrays.copyOf(buffer,
            (int) Math.min(Integer.MAX_VALUE - 8L, Math.max(size, 2L * buffer.length)));
      }
      return at;
    }

    void putByte(int value) {
      int at = room(1);
      buffer[at] = (byte) value;
    }

    void putInt(int value) {
      int at = room(Integer.BYTES);
      INT.set(buffer, at, value);
    }

    void putLong(long value) {
      int at = room(Long.BYTES);
      LONG.set(buffer, at, value);
    }

    void put(byte[] value) {
      int at = room(value.length);
      System.arraycopy(value, 0, buffer, at, value.length);
    }

    int size() {
      return size;
    }

    void clear() {
      size = 0;
    }

    /** Padded to eight bytes, so that what follows is aligned. */
    void to(OutputStream out) throws IOException {
      out.write(buffer, 0, size);
      out.write(new byte[padding()]);
    }

    private int padding() {
      return -size & 7;
    }
  }

  /** An empty column of such values. */
  static Column of(Field field) {
    return switch (field.kind()) {
      case STRING -> new Texts();
      case BOOLEAN -> new Booleans();
      case DOUBLE, FLOAT -> new Doubles();
      case DECIMAL -> new Decimals();
      case DATE -> new Days();
      case ARRAY -> new Lists(of(field.element()));
      case BIGINT, TIME -> new Longs();
    };
  }

  private final Bytes there = new Bytes();
  private int rows;
  private int nulls;

  /** Adds a value; null for none. */
  final void add(Object value) {
    rows++;
    there.putByte(value == null ? 0 : 1);
    if (value == null) {
      nulls++;
    }
    addValue(value);
  }

  /** The buffers in their order. */
  final void buffers(List<Bytes> into) {
    if (nulls == 0) {
      there.clear();
    }
    into.add(there);
    values(into);
  }

  abstract void addValue(Object value);

  abstract void values(List<Bytes> into);

  static final class Longs extends Column {
    private final Bytes values = new Bytes();

    @Override
    void addValue(Object value) {
      values.putLong(value == null ? 0 : (Long) value);
    }

    @Override
    void values(List<Bytes> into) {
      into.add(values);
    }
  }

  static final class Doubles extends Column {
    private final Bytes values = new Bytes();

    @Override
    void addValue(Object value) {
      values.putLong(value == null ? 0 : Double.doubleToRawLongBits((Double) value));
    }

    @Override
    void values(List<Bytes> into) {
      into.add(values);
    }
  }

  static final class Booleans extends Column {
    private final Bytes values = new Bytes();

    @Override
    void addValue(Object value) {
      values.putByte(Boolean.TRUE.equals(value) ? 1 : 0);
    }

    @Override
    void values(List<Bytes> into) {
      into.add(values);
    }
  }

  static final class Days extends Column {
    private final Bytes values = new Bytes();

    @Override
    void addValue(Object value) {
      values.putInt(value == null ? 0 : (int) ((LocalDate) value).toEpochDay());
    }

    @Override
    void values(List<Bytes> into) {
      into.add(values);
    }
  }

  /** Two's complement, 16 bytes. */
  static final class Decimals extends Column {
    private static final int WIDTH = 16;
    private final Bytes values = new Bytes();

    @Override
    void addValue(Object value) {
      BigInteger unscaled = value == null ? BigInteger.ZERO : ((BigDecimal) value).unscaledValue();
      byte[] bytes = unscaled.toByteArray();
      for (int i = bytes.length - 1; i >= 0; i--) {
        values.putByte(bytes[i]);
      }
      for (int i = bytes.length; i < WIDTH; i++) {
        values.putByte(unscaled.signum() < 0 ? -1 : 0);
      }
    }

    @Override
    void values(List<Bytes> into) {
      into.add(values);
    }
  }

  static final class Texts extends Column {
    private final Bytes ends = new Bytes();
    private final Bytes values = new Bytes();

    Texts() {
      ends.putInt(0);
    }

    @Override
    void addValue(Object value) {
      if (value != null) {
        values.put(((String) value).getBytes(StandardCharsets.UTF_8));
      }
      ends.putInt(values.size());
    }

    @Override
    void values(List<Bytes> into) {
      into.add(ends);
      into.add(values);
    }
  }

  static final class Lists extends Column {
    private final Bytes ends = new Bytes();
    private final Column elements;
    private int count;

    Lists(Column elements) {
      this.elements = elements;
      ends.putInt(0);
    }

    @Override
    void addValue(Object value) {
      if (value != null) {
        for (Object element : (List<?>) value) {
          elements.add(element);
          count++;
        }
      }
      ends.putInt(count);
    }

    @Override
    void values(List<Bytes> into) {
      into.add(ends);
      elements.buffers(into);
    }
  }
}
