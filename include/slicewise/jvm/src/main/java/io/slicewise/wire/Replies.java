package io.slicewise.wire;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * Replies as values: byte[], Long, List, null, or an error, which is a value too, so that later
 * replies are read.
 */
public final class Replies {
  /** What the node refused. */
  public record Failed(String message) {
    public boolean is(String code) {
      return message.startsWith(code);
    }
  }

  private final InputStream in;
  private final byte[] buffer = new byte[1 << 16];
  private int at;
  private int end;

  public Replies(InputStream in) {
    this.in = in;
  }

  /** Waits for the next one. */
  public Object next() throws IOException {
    int kind = octet();
    return switch (kind) {
      case '+' -> line().getBytes(StandardCharsets.UTF_8);
      case '-' -> new Failed(line());
      case ':' -> Long.valueOf(line());
      case '$' -> bulk((int) number());
      case '*' -> list((int) number());
      default -> throw new IOException("a reply of kind " + kind);
    };
  }

  private long number() throws IOException {
    try {
      return Long.parseLong(line());
    } catch (NumberFormatException none) {
      throw new IOException("a reply without its size", none);
    }
  }

  private byte[] bulk(int size) throws IOException {
    if (size < 0) {
      return null;
    }
    byte[] bulk = new byte[size];
    for (int done = 0; done < size; ) {
      if (at == end) {
        fill();
      }
      int some = Math.min(size - done, end - at);
      System.arraycopy(buffer, at, bulk, done, some);
      at += some;
      done += some;
    }
    octet();
    octet();
    return bulk;
  }

  private List<Object> list(int size) throws IOException {
    if (size < 0) {
      return null;
    }
    List<Object> list = new ArrayList<>(size);
    for (int i = 0; i < size; i++) {
      list.add(next());
    }
    return list;
  }

  private String line() throws IOException {
    StringBuilder line = new StringBuilder();
    for (int octet = octet(); octet != '\r'; octet = octet()) {
      line.append((char) octet);
    }
    octet();
    return line.toString();
  }

  private int octet() throws IOException {
    if (at == end) {
      fill();
    }
    return buffer[at++] & 0xff;
  }

  private void fill() throws IOException {
    int some = in.read(buffer, 0, buffer.length);
    if (some <= 0) {
      throw new EOFException("the store closed the connection");
    }
    at = 0;
    end = some;
  }
}
