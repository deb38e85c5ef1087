import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Prints decisions of Kafka's StandardAuthorizer. Commands are lines of stdin with fields separated by tabs:
 * C allowsWithoutAcl superUsers    create an authorizer without ACLs
 * A kind pattern name principal host operation permission    add an ACL
 * Q principal host operation kind name    print two digits: for this resource, and for any resource of its kind
 */
public class AuthorizerDriver {
    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        StandardAuthorizer authorizer = null;
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] fields = line.split("\t", -1);
            if (fields[0].equals("C")) {
                Map<String, Object> configs = new HashMap<>();
                configs.put("allow.everyone.if.no.acl.found", fields[1]);
                configs.put("super.users", fields[2]);
                authorizer = new StandardAuthorizer();
                authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                authorizer.configure(configs);
                authorizer.completeInitialLoad();
            } else if (fields[0].equals("A")) {
                authorizer.addAcl(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.fromCode(code(fields[1])), fields[3], PatternType.fromCode(code(fields[2])),
                    fields[4], fields[5], AclOperation.fromCode(code(fields[6])),
                    AclPermissionType.fromCode(code(fields[7]))));
            } else {
                var context = context(fields[1], InetAddress.getByName(fields[2]));
                var operation = AclOperation.fromCode(code(fields[3]));
                var kind = ResourceType.fromCode(code(fields[4]));
                var resource = new ResourcePattern(kind, fields[5], PatternType.LITERAL);
                var action = new Action(operation, resource, 1, false, false);
                output.print(isAllowed(authorizer.authorize(context, List.of(action)).get(0)));
                output.print(isAllowed(authorizer.authorizeByResourceType(context, operation, kind)));
            }
        }
        output.flush();
    }

    private static byte code(String text) {
        return Byte.parseByte(text);
    }

    private static char isAllowed(AuthorizationResult result) {
        return result == AuthorizationResult.ALLOWED ? '1' : '0';
    }

    private static AuthorizableRequestContext context(String principal, InetAddress address) {
        int colon = principal.indexOf(':');
        var parsed = new KafkaPrincipal(principal.substring(0, colon), principal.substring(colon + 1));
        return (AuthorizableRequestContext) Proxy.newProxyInstance(
            AuthorizerDriver.class.getClassLoader(),
            new Class<?>[] {AuthorizableRequestContext.class},
            (proxy, method, values) -> switch (method.getName()) {
                case "principal" -> parsed;
                case "clientAddress" -> address;
                case "requestType", "requestVersion", "correlationId" -> 0;
                default -> null;
            });
    }
}
