package io.slicewise.realtime;

import io.slicewise.wire.Replies;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Function;

/**
 * Answers as a store would in which nothing stands; what scripts are called with is recorded, and
 * answered as told.
 */
final class Node implements AutoCloseable {
  private static final String INFO = "run_id:r\r\nmaster_replid:m\r\n";

  final List<List<String>> calls = new CopyOnWriteArrayList<>();
  volatile int scripts;
  private final ServerSocket server = new ServerSocket(0, 5, InetAddress.getLoopbackAddress());
  private final Function<List<String>, String> script;

  /** As the metadata has it; null: they have none. */
  volatile String deploymentVersion;

  /** How often the metadata was asked. */
  volatile int requests;

  /** script: from the words of a call to its reply, as it stands on the wire. */
  Node(Function<List<String>, String> script) throws IOException {
    this.script = script;
    Thread thread = new Thread(this::serve);
    thread.setDaemon(true);
    thread.start();
  }

  /** What a real-time lane of one unit without columns is told, to be bound to this node. */
  String spec() {
    return "{\"redis_url\":\"redis://127.0.0.1:"
        + server.getLocalPort()
        + "\",\"run_id\":\"r\",\"replication_id\":\"m\",\"generation\":7,\"epoch\":null,\"run\":\"a\",\"after\":null,\"source\":\"s\","
        + "\"topic_id\":\"0123456789abcdef0123456789abcdef\",\"partitions\":[0],\"marks_key\":\"marks\","
        + "\"status_key\":\"status\",\"pending_script\":\"pending\",\"list_script\":\"list\",\"bound\":10,\"field_events\":64,\"field_bytes\":4096,\"ahead\":100000,"
        + "\"queue\":4096,\"timeout_ms\":5000,\"patience_ms\":5000,\"units\":[{\"name\":\"u\",\"keep\":\"keep\","
        + "\"start\":{\"0\":3},\"slice_us\":1000,\"retention_us\":1,\"entity\":[{\"name\":\"e\",\"type\":\"string\","
        + "\"column\":\"e\"}],\"inputs\":[],\"spread\":false,\"list\":null}]}";
  }

  private void serve() {
    while (!server.isClosed()) {
      try (Socket peer = server.accept()) {
        Replies commands = new Replies(peer.getInputStream());
        OutputStream out = peer.getOutputStream();
        while (true) {
          out.write(answer(words((List<?>) commands.next())).getBytes(StandardCharsets.ISO_8859_1));
        }
      } catch (IOException gone) {
        continue; // another may come
      }
    }
  }

  private static List<String> words(List<?> raw) {
    return raw.stream().map(word -> new String((byte[]) word, StandardCharsets.ISO_8859_1))
        .toList();
  }

  private String answer(List<String> words) {
    switch (words.get(0)) {
      case "INFO":
        return "$" + INFO.length() + "\r\n" + INFO + "\r\n";
      case "SCRIPT":
        scripts++;
        return "+OK\r\n";
      case "HMGET":
        requests++;
        String version = deploymentVersion == null ? "$-1\r\n" : "$" + deploymentVersion.length()
            + "\r\n" + deploymentVersion + "\r\n";
        return "*" + (words.size() - 2) + "\r\n$1\r\n7\r\n" + version
            + "$-1\r\n".repeat(words.size() - 4);
      case "EVALSHA":
        calls.add(words);
        return script.apply(words);
      default:
        return "+OK\r\n";
    }
  }

  @Override
  public void close() throws IOException {
    server.close();
  }
}
