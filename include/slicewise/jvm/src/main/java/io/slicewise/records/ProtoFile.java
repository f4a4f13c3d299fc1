package io.slicewise.records;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The messages of a .proto text (proto3, and proto2 without defaults), as far as reading values
 * needs.
 *
 * <p>What it does not know it refuses: a record is never read by half a schema.
 */
final class ProtoFile {
  // the space before a word is possessive: no end of a comment is taken for a word
  private static final Pattern TOKEN =
      Pattern.compile("\\G(?:\\s|//[^\\n]*|(?s:/\\*.*?\\*/))*+([A-Za-z_][\\w.]*|\\.[A-Za-z_][\\w.]*"
          + "|-?[0-9][\\w.+-]*|\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|[{}\\[\\]()<>=;,:-])");
  static final Set<String> SCALARS =
      Set.of("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32",
          "fixed64",
          "sfixed32", "sfixed64", "bool", "string", "bytes");
  private static final String STANDARD_TYPES =
      "syntax = 'proto3'; package google.protobuf; message Timestamp {int64 seconds = 1; int32 nanos = 2;}"
          + "message DoubleValue {double value = 1;} message FloatValue {float value = 1;}"
          + "message Int64Value {int64 value = 1;} message UInt64Value {uint64 value = 1;}"
          + "message Int32Value {int32 value = 1;} message UInt32Value {uint32 value = 1;}"
          + "message BoolValue {bool value = 1;} message StringValue {string value = 1;}";

  /** A member: presence is whether its absence is told from its zero. */
  static final class Member {
    final String name;
    final boolean repeated;
    final boolean presence;
    private final String written;
    private final Message home;
    String scalar;
    Message message;
    Map<Integer, String> symbols;

    Member(String name, String written, Message home, boolean repeated, boolean presence) {
      this.name = name;
      this.written = written;
      this.home = home;
      this.repeated = repeated;
      this.presence = presence;
    }
  }

  static final class Message {
    final String name;
    final Map<Integer, Member> members = new HashMap<>();
    final List<Message> inner = new ArrayList<>();

    Message(String name) {
      this.name = name;
    }
  }

  private final Map<String, Message> messages = new HashMap<>();
  private final Map<String, Map<Integer, String>> enums = new HashMap<>();
  private final List<Message> top = new ArrayList<>();
  private final List<String> tokens = new ArrayList<>();
  private int at;
  private boolean proto3;

  private ProtoFile() {}

  /** The file of a registered schema, with all that it names. */
  static ProtoFile of(Registry.Registered registered) {
    if (!registered.type().equals("PROTOBUF")) {
      throw new IllegalArgumentException("it is of type " + registered.type());
    }
    ProtoFile file = new ProtoFile();
    file.parse(STANDARD_TYPES);
    registered.references().forEach(file::parse);
    file.top.clear();
    file.parse(registered.text());
    file.messages.values().forEach(message -> message.members.values().forEach(file::resolve));
    return file;
  }

  /** The message that indexes lead to, from the top; null where there is none. */
  Message message(int[] indexes) {
    List<Message> among = top;
    Message message = null;
    for (int index : indexes) {
      if (index < 0 || index >= among.size()) {
        return null;
      }
      message = among.get(index);
      among = message.inner;
    }
    return message;
  }

  private void parse(String text) {
    tokens.clear();
    at = 0;
    proto3 = false;
    Matcher matcher = TOKEN.matcher(text);
    int end = 0;
    while (matcher.find()) {
      tokens.add(matcher.group(1));
      end = matcher.end();
    }
    if (!text.substring(end).replaceAll("//[^\\n]*|(?s:/\\*.*?\\*/)", "").isBlank()) {
      throw new IllegalArgumentException("unreadable from character " + end);
    }
    String scope = "";
    while (at < tokens.size()) {
      String word = next();
      switch (word) {
        case "syntax":
          expect("=");
          proto3 = next().contains("proto3");
          expect(";");
          break;
        case "package":
          scope = next() + ".";
          expect(";");
          break;
        case "message":
          top.add(message(scope));
          break;
        case "enum":
          symbols(scope);
          break;
        case "import":
        case "option":
          statement();
          break;
        case "service":
        case "extend":
          statement();
          break;
        case ";":
          break;
        default:
          throw new IllegalArgumentException(word + " at the top is not known");
      }
    }
  }

  private Message message(String scope) {
    Message made = new Message(scope + next());
    messages.put(made.name, made);
    expect("{");
    for (String word = next(); !word.equals("}"); word = next()) {
      switch (word) {
        case "message":
          made.inner.add(message(made.name + "."));
          break;
        case "enum":
          symbols(made.name + ".");
          break;
        case "oneof":
          next();
          expect("{");
          for (String first = next(); !first.equals("}"); first = next()) {
            if (first.equals("option")) {
              statement();
            } else {
              member(made, first, false, true);
            }
          }
          break;
        case "reserved":
        case "option":
        case "extensions":
        case "extend":
          statement();
          break;
        case ";":
          break;
        case "repeated":
          member(made, next(), true, false);
          break;
        case "optional":
        case "required":
          member(made, next(), false, true);
          break;
        default:
          member(made, word, false, !proto3);
      }
    }
    return made;
  }

  private void member(Message home, String type, boolean repeated, boolean presence) {
    if (type.equals("group")) {
      throw new IllegalArgumentException("a group is not read");
    }
    boolean isMap = type.equals("map") && peek().equals("<");
    if (isMap) {
      while (!next().equals(">")) { // its types bear on nothing: a map is no column
        continue;
      }
    }
    Member made = new Member(next(), isMap ? "bytes" : type, home, repeated || isMap, presence);
    expect("=");
    home.members.put(Integer.decode(next()), made);
    while (!peek().equals(";")) {
      if (next().equals("default")) {
        throw new IllegalArgumentException("a default of proto2 is not read");
      }
    }
    expect(";");
  }

  private void symbols(String scope) {
    Map<Integer, String> symbols = new HashMap<>();
    enums.put(scope + next(), symbols);
    expect("{");
    for (String word = next(); !word.equals("}"); word = next()) {
      if (word.equals("option") || word.equals("reserved")) {
        statement();
      } else if (!word.equals(";")) {
        expect("=");
        String number = next();
        symbols.putIfAbsent(Integer.decode(number.equals("-") ? "-" + next() : number), word);
        statement();
      }
    }
  }

  private void resolve(Member member) {
    if (SCALARS.contains(member.written)) {
      member.scalar = member.written;
      return;
    }
    String scope = member.home.name + ".";
    while (true) {
      String name = member.written.startsWith(".") ? member.written.substring(1) : scope
          + member.written;
      if (messages.containsKey(name)) {
        member.message = messages.get(name);
        return;
      }
      if (enums.containsKey(name)) {
        member.symbols = enums.get(name);
        return;
      }
      if (scope.isEmpty() || member.written.startsWith(".")) {
        throw new IllegalArgumentException("type " + member.written + " is not known");
      }
      int dot = scope.lastIndexOf('.', scope.length() - 2);
      scope = dot < 0 ? "" : scope.substring(0, dot + 1);
    }
  }

  /** Passes what is left of a statement, with its block if it has one. */
  private void statement() {
    int depth = 0;
    while (true) {
      String word = next();
      depth += word.equals("{") ? 1 : word.equals("}") ? -1 : 0;
      if (depth == 0 && (word.equals(";") || word.equals("}"))) {
        return;
      }
    }
  }

  private String peek() {
    if (at >= tokens.size()) {
      throw new IllegalArgumentException("it ends early");
    }
    return tokens.get(at);
  }

  private String next() {
    String word = peek();
    at++;
    return word;
  }

  private void expect(String word) {
    String token = next();
    if (!token.equals(word)) {
      throw new IllegalArgumentException(token + " where " + word + " was expected");
    }
  }
}
