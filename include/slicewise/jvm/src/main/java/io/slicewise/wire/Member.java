package io.slicewise.wire;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.zip.CRC32;

/**
 * An event as bytes: its identity, which values there are, the values, CRC-32; to the byte what
 * `codec/members.py` writes.
 */
public final class Member {
  private static final int IDENTITY_BYTES = 36;
  private static final int SIZE_BYTES = Integer.BYTES;
  private static final byte[] NOTHING = {};

  private final Stored[] columns;
  private final long topicHigh;
  private final long topicLow;
  private final int width;

  /**
   * @param topicId 32 hex digits
   * @param kinds types of the columns, sorted by their names
   */
  public Member(String topicId, List<String> kinds) {
    this.topicHigh = Long.parseUnsignedLong(topicId.substring(0, 16), 16);
    this.topicLow = Long.parseUnsignedLong(topicId.substring(16), 16);
    this.columns = kinds.stream().map(Stored::of).toArray(Stored[]::new);
    int fixed = IDENTITY_BYTES + columns.length;
    for (Stored column : columns) {
      fixed += column.width == 0 ? SIZE_BYTES : column.width;
    }
    this.width = fixed;
  }

  public byte[] of(long timeUs, int partition, long offset, Object[] values) {
    byte[][] texts = new byte[columns.length][];
    int size = width + Integer.BYTES;
    for (int i = 0; i < columns.length; i++) {
      if (columns[i].width == 0) {
        texts[i] = values[i] == null ? NOTHING : columns[i].bytes(values[i]);
        size += texts[i].length;
      }
    }
    ByteBuffer out = ByteBuffer.allocate(size);
    out.putLong(timeUs ^ Long.MIN_VALUE).putLong(topicHigh).putLong(topicLow).putInt(partition)
        .putLong(offset);
    out.order(ByteOrder.LITTLE_ENDIAN);
    for (Object value : values) {
      out.put((byte) (value == null ? 0 : 1));
    }
    for (int i = 0; i < columns.length; i++) {
      if (columns[i].width == 0) {
        out.putInt(texts[i].length);
        continue;
      }
      long fixed = values[i] == null ? 0 : columns[i].fixed(values[i]);
      if (columns[i].width == 1) {
        out.put((byte) fixed);
      } else {
        out.putLong(fixed);
      }
    }
    for (byte[] text : texts) {
      if (text != null) {
        out.put(text);
      }
    }
    CRC32 crc = new CRC32();
    crc.update(out.array(), 0, out.position());
    return out.putInt((int) crc.getValue()).array();
  }
}
