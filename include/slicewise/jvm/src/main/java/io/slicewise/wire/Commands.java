package io.slicewise.wire;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Commands of one exchange, packed as Redis reads them; filled again for the next one. */
public final class Commands {
  private static final int KEPT_BYTES = 4 << 20;

  private byte[] buffer = new byte[1 << 14];
  private int size;
  private int count;

  /** Begins a command of so many words. */
  public Commands begin(int words) {
    count++;
    return head('*', words);
  }

  public Commands word(byte[] raw) {
    head('$', raw.length);
    room(raw.length + 2);
    System.arraycopy(raw, 0, buffer, size, raw.length);
    size += raw.length;
    return end();
  }

  /** A text of ASCII. */
  public Commands word(String text) {
    return word(text.getBytes(StandardCharsets.ISO_8859_1));
  }

  public Commands word(long number) {
    return word(Long.toString(number));
  }

  /** A whole command of ASCII words. */
  public Commands command(String... words) {
    begin(words.length);
    for (String word : words) {
      word(word);
    }
    return this;
  }

  public int count() {
    return count;
  }

  public int size() {
    return size;
  }

  public void clear() {
    size = 0;
    count = 0;
    if (buffer.length > KEPT_BYTES) {
      buffer = new byte[1 << 14];
    }
  }

  void to(OutputStream out) throws IOException {
    out.write(buffer, 0, size);
    out.flush();
  }

  private Commands head(char kind, int number) {
    room(14);
    buffer[size++] = (byte) kind;
    int digits = 1;
    for (int rest = number; rest >= 10; rest /= 10) {
      digits++;
    }
    int rest = number;
    for (int at = size + digits - 1; at >= size; at--, rest /= 10) {
      buffer[at] = (byte) ('0' + rest % 10);
    }
    size += digits;
    return end();
  }

  private Commands end() {
    buffer[size++] = '\r';
    buffer[size++] = '\n';
    return this;
  }

  private void room(int more) {
    if (size + more > buffer.length) {
      buffer = Arrays.copyOf(buffer, Math.max(size + more, 2 * buffer.length));
    }
  }
}
