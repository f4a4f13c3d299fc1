package io.slicewise.wire;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.SSLSocketFactory;

/**
 * A connection is one socket for one server run: broken or late it is dead, and never comes back by
 * itself. A client that connects and sends again unasked would bring writes of an old server run
 * into a new one (docs/adr/0051).
 *
 * <p>For one thread at a time; another may close it.
 */
public final class RedisConnection implements Closeable {
  private static final long WATCH_MS = 100;
  // A write to a node that hangs has no timeout of its own: whoever is late is closed from here.
  private static final ScheduledExecutorService WATCH =
      Executors.newSingleThreadScheduledExecutor(
          task -> {
            Thread thread = new Thread(task, "realtime-watch");
            thread.setDaemon(true);
            return thread;
          });

  private final Closeable socket;
  private final OutputStream out;
  private final Replies replies;
  private final long timeoutNs;
  private final ScheduledFuture<?> watch;
  private volatile long since;
  private volatile boolean late;
  private volatile boolean closed;

  private RedisConnection(Closeable socket, InputStream in, OutputStream out, long timeoutMs) {
    this.socket = socket;
    this.out = out;
    this.replies = new Replies(in);
    this.timeoutNs = TimeUnit.MILLISECONDS.toNanos(timeoutMs);
    this.watch =
        WATCH.scheduleWithFixedDelay(this::look, WATCH_MS, WATCH_MS, TimeUnit.MILLISECONDS);
  }

  /** Connects, and says who it is. Failure where that is refused. */
  public static RedisConnection open(RedisAddress address, long timeoutMs) throws IOException {
    RedisConnection opened = connected(address, timeoutMs);
    if (address.password == null) {
      return opened;
    }
    Commands greeting = new Commands();
    greeting.begin(3).word("AUTH").word(utf8(address.user)).word(utf8(address.password));
    try {
      if (opened.exchange(greeting).get(0) instanceof Replies.Failed refused) {
        throw new Failure(
            "the store refuses: " + refused.message(), address.toString(), "a user it knows",
            "see SLICEWISE_REDIS_URL");
      }
      return opened;
    } catch (IOException | RuntimeException failed) {
      opened.close();
      throw failed;
    }
  }

  private static byte[] utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static RedisConnection connected(RedisAddress address, long timeoutMs)
      throws IOException {
    if (address.path != null) {
      SocketChannel channel = SocketChannel.open(UnixDomainSocketAddress.of(address.path));
      return new RedisConnection(
          channel, Channels.newInputStream(channel), Channels.newOutputStream(channel), timeoutMs);
    }
    Socket plain = new Socket();
    try {
      plain.connect(new InetSocketAddress(address.host, address.port), (int) timeoutMs);
      plain.setTcpNoDelay(true);
      Socket spoken = plain;
      if (address.tls) {
        plain.setSoTimeout((int) timeoutMs); // of the handshake too
        SSLSocketFactory factory = (SSLSocketFactory) SSLSocketFactory.getDefault();
        SSLSocket secured =
            (SSLSocket) factory.createSocket(plain, address.host, address.port, true);
        SSLParameters wanted = secured.getSSLParameters();
        wanted.setEndpointIdentificationAlgorithm("HTTPS");
        secured.setSSLParameters(wanted);
        secured.startHandshake();
        spoken = secured;
      }
      // the plain socket is what is closed: closing TLS waits for who writes
      return new RedisConnection(plain, spoken.getInputStream(), spoken.getOutputStream(),
          timeoutMs);
    } catch (IOException | RuntimeException failed) {
      plain.close();
      throw failed;
    }
  }

  /**
   * Sends, and waits for as many replies. IOException where it broke or was too late: it is dead
   * then.
   */
  public List<Object> exchange(Commands commands) throws IOException {
    since = System.nanoTime() | 1; // 0 is: nobody waits
    try {
      commands.to(out);
      List<Object> received = new ArrayList<>(commands.count());
      while (received.size() < commands.count()) {
        received.add(replies.next());
      }
      return received;
    } catch (IOException | RuntimeException broken) {
      close();
      if (late) {
        throw new SocketTimeoutException("no answer within "
            + TimeUnit.NANOSECONDS.toMillis(timeoutNs) + " ms");
      }
      throw broken;
    } finally {
      since = 0;
    }
  }

  private void look() {
    long begun = since;
    if (begun != 0 && System.nanoTime() - begun > timeoutNs) {
      late = true;
      close();
    }
  }

  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    watch.cancel(false);
    try {
      socket.close();
    } catch (IOException gone) {
      // it is gone, which is what was asked for
    }
  }
}
