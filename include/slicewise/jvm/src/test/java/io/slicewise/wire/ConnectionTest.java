package io.slicewise.wire;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A connection speaks Redis's protocol for one server run, and never comes back by itself. */
class ConnectionTest {
  private static final String PONG = "+PONG\r\n";

  @Test
  void commandsAreFramedByTheirBytes() throws IOException {
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    new Commands().begin(3).word("SET").word("é".getBytes(StandardCharsets.UTF_8))
        .word(-1234567890123L).to(out);
    assertEquals("*3\r\n$3\r\nSET\r\n$2\r\né\r\n$14\r\n-1234567890123\r\n",
        out.toString(StandardCharsets.UTF_8));
    out.reset();
    Commands large = new Commands().begin(2).word(new byte[99_999]).word("");
    large.to(out);
    assertEquals("*2\r\n$99999\r\n".length() + 99_999 + "\r\n$0\r\n\r\n".length(), out.size());
    large.clear();
    assertEquals(0, large.size() + large.count());
  }

  @Test
  void repliesAreReadWhereverTheyAreCut() throws IOException {
    byte[] raw = "+OK\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*3\r\n:1\r\n*0\r\n-ERR x\r\n*-1\r\n".getBytes(StandardCharsets.UTF_8);
    for (int most = 1; most < raw.length; most++) {
      Replies replies = new Replies(cutting(raw, most));
      assertArrayEquals("OK".getBytes(StandardCharsets.UTF_8), (byte[]) replies.next());
      assertEquals(-7L, replies.next());
      assertArrayEquals("a\r\n".getBytes(StandardCharsets.UTF_8), (byte[]) replies.next());
      assertNull(replies.next());
      assertEquals(List.of(1L, List.of(), new Replies.Failed("ERR x")), replies.next());
      assertNull(replies.next());
      assertThrows(IOException.class, replies::next);
    }
  }

  private static InputStream cutting(byte[] raw, int most) {
    return new ByteArrayInputStream(raw) {
      @Override
      public synchronized int read(byte[] into, int at, int size) {
        return super.read(into, at, Math.min(size, most));
      }
    };
  }

  @Test
  void anAddressIsReadAsPythonReadsIt() {
    RedisAddress full = RedisAddress.of("rediss://us%40er:p%2Bw+%3A@store.example:6380/0");
    assertEquals("us@er p+w+: store.example 6380 true", shown(full));
    assertEquals("default pw 127.0.0.1 6379 false",
        shown(RedisAddress.of("redis://:pw@127.0.0.1")));
    assertEquals("default null 127.0.0.1 7000 false",
        shown(RedisAddress.of("redis://127.0.0.1:7000")));
    assertEquals("/run/a.sock", RedisAddress.of("unix:///run/a.sock").path);
    assertFalse(full.toString().contains("p+w"));
    for (String wrong : List.of("redis://h:1/2", "http://h:1", "h")) {
      assertThrows(Failure.class, () -> RedisAddress.of(wrong));
    }
  }

  private static String shown(RedisAddress address) {
    return String.join(
        " ", address.user, address.password, address.host, String.valueOf(address.port),
        String.valueOf(address.tls));
  }

  @Test
  void aNodeThatHangsIsGivenUpInTimeAndForGood() throws IOException {
    try (ServerSocket server = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
      RedisConnection connection = RedisConnection.open(at(server), 300);
      long begun = System.nanoTime();
      assertThrows(SocketTimeoutException.class, () ->
          connection.exchange(new Commands().command("PING")));
      // a pipeline that fills all buffers hangs while it is written
      RedisConnection writing = RedisConnection.open(at(server), 300);
      Commands large = new Commands().begin(1).word(new byte[64 << 20]);
      assertThrows(SocketTimeoutException.class, () -> writing.exchange(large));
      assertTrue(System.nanoTime() - begun < 10_000_000_000L);
      server.accept().close();
      server.accept().close();
      server.setSoTimeout(200);
      assertThrows(IOException.class, () -> connection.exchange(new Commands().command("PING")));
      assertThrows(SocketTimeoutException.class, server::accept, "it connected again by itself");
    }
  }

  @Test
  void aNodeThatClosesBreaksTheConnectionForGood() throws IOException {
    try (ServerSocket server = new ServerSocket(0, 5, InetAddress.getLoopbackAddress())) {
      RedisConnection connection = RedisConnection.open(at(server), 5_000);
      try (Socket peer = server.accept()) {
        peer.getOutputStream().write(PONG.getBytes(StandardCharsets.UTF_8));
        assertEquals(1, connection.exchange(new Commands().command("PING")).size());
        peer.getOutputStream().write(PONG.substring(0, 3).getBytes(StandardCharsets.UTF_8));
      }
      assertThrows(IOException.class, () -> connection.exchange(new Commands().command("PING")));
      server.setSoTimeout(200);
      assertThrows(IOException.class, () -> connection.exchange(new Commands().command("PING")));
      assertThrows(SocketTimeoutException.class, server::accept, "it connected again by itself");
    }
  }

  private static RedisAddress at(ServerSocket server) {
    return RedisAddress.of("redis://127.0.0.1:" + server.getLocalPort());
  }

  @Test
  void aSocketOfTheMachineIsSpokenToAlike(@TempDir Path folder) throws IOException {
    Path path = folder.resolve("s");
    try (ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
      server.bind(UnixDomainSocketAddress.of(path));
      try (RedisConnection connection =
          RedisConnection.open(RedisAddress.of("unix://" + path), 500);
          SocketChannel peer = server.accept()) {
        peer.write(ByteBuffer.wrap(PONG.getBytes(StandardCharsets.UTF_8)));
        assertEquals(1, connection.exchange(new Commands().command("PING")).size());
        assertThrows(SocketTimeoutException.class, () ->
            connection.exchange(new Commands().command("PING")));
      }
    }
  }
}
