import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;

/**
 * Runs Kafka's tools one after the other in one JVM, which loads and compiles their classes only once.
 *
 * A request is a line of base64 fields: the stdin, class and arguments of a tool. The response is a line with the
 * exit code and, in base64, the tool's output to stdout and stderr.
 */
public class ToolServer {
    static class Exited extends Error {
        Exited() {
            // Tools print the errors that they catch: this error has no stack trace.
            super("", null, false, false);
        }
    }

    /** The output of tools; it is never replaced, since tools, Scala and Log4j may keep the first stream. */
    static final ByteArrayOutputStream OUTPUT = new ByteArrayOutputStream();
    static final ByteArrayOutputStream ERRORS = new ByteArrayOutputStream();

    /** The first exit code of the current tool: code that catches Exited may exit again with another code. */
    static volatile Integer code;

    public static void main(String[] arguments) throws Exception {
        PrintStream responses = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.setOut(new PrintStream(OUTPUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERRORS, true, StandardCharsets.UTF_8));
        catchExits();
        for (String line; (line = requests.readLine()) != null;) {
            String[] fields = Arrays.stream(line.split(" ")).map(ToolServer::decoded).toArray(String[]::new);
            responses.println(run(fields[0], fields[1], Arrays.copyOfRange(fields, 2, fields.length)));
            responses.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    static String run(String input, String tool, String[] arguments) {
        OUTPUT.reset();
        ERRORS.reset();
        System.setIn(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
        code = null;
        int failed = 0;
        try {
            Method entry = Class.forName(tool).getMethod("main", String[].class);
            // Some classes are not public.
            entry.setAccessible(true);
            entry.invoke(null, (Object) arguments);
        } catch (ReflectiveOperationException thrown) {
            Throwable cause = thrown instanceof InvocationTargetException ? thrown.getCause() : thrown;
            if (!(cause instanceof Exited)) {
                failed = 1;
                cause.printStackTrace();
            }
        }
        System.out.flush();
        System.err.flush();
        return (code == null ? failed : code) + " " + encoded(OUTPUT) + " " + encoded(ERRORS);
    }

    /** Replaces the procedures of Kafka's class Exit, which tools call; it has another package since 4.4. */
    static void catchExits() throws Exception {
        Class<?> exit = null;
        for (String name : new String[] {"utils.Exit", "utils.internals.Exit"}) {
            try {
                exit = Class.forName("org.apache.kafka.common." + name);
                break;
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        for (String setter : new String[] {"setExitProcedure", "setHaltProcedure", "setShutdownHookAdder"}) {
            Method method = Arrays.stream(exit.getMethods()).filter(each -> each.getName().equals(setter)).findFirst().get();
            Class<?> procedure = method.getParameterTypes()[0];
            method.invoke(null, Proxy.newProxyInstance(
                procedure.getClassLoader(), new Class<?>[] {procedure}, (proxy, called, values) -> {
                    if (values[0] instanceof Integer) {
                        if (code == null) {
                            code = (Integer) values[0];
                        }
                        throw new Exited();
                    }
                    return null;
                }));
        }
    }

    static String decoded(String field) {
        // Fields are separated by spaces, so that "-" encodes the empty string.
        return field.equals("-") ? "" : new String(Base64.getDecoder().decode(field), StandardCharsets.UTF_8);
    }

    static String encoded(ByteArrayOutputStream bytes) {
        return bytes.size() == 0 ? "-" : Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
