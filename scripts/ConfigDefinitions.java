import java.lang.reflect.Field;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints a line per config that Kafka defines; scripts/generate_configs.py explains the fields. */
public class ConfigDefinitions {
    public static void main(String[] arguments) throws Exception {
        Map<String, ConfigDef> definitions = new LinkedHashMap<>();
        definitions.put("TOPIC", LogConfig.configDefCopy());
        definitions.put("GROUP", GroupConfig.CONFIG_DEF);
        definitions.put("CLIENT_METRICS", ClientMetricsConfigs.configDef());
        definitions.put("BROKER", kafka.server.KafkaConfig$.MODULE$.configDef());
        for (Map.Entry<String, ConfigDef> of : definitions.entrySet()) {
            for (ConfigDef.ConfigKey key : new TreeMap<>(of.getValue().configKeys()).values()) {
                String value = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
                System.out.println(String.join("\t",
                    of.getKey(), key.name, key.type.toString(), value == null ? "null" : "=" + value,
                    rule(key.validator), synonym(of.getKey(), key.name), key.internalConfig ? "internal" : "-"));
            }
        }
    }

    private static String synonym(String of, String name) {
        String synonym = null;
        if (of.equals("TOPIC")) {
            synonym = ServerTopicConfigSynonyms.TOPIC_CONFIG_SYNONYMS.get(name);
        } else if (of.equals("GROUP")) {
            synonym = GroupConfig.brokerSynonym(name).orElse(null);
        }
        return synonym == null ? "-" : synonym;
    }

    private static String rule(ConfigDef.Validator validator) throws Exception {
        if (validator == null) {
            return "-";
        }
        String name = validator.getClass().getSimpleName();
        switch (name) {
            case "Range":
                return text(field(validator, "min")) + ":" + text(field(validator, "max"));
            case "ValidString":
                return "in=" + joined((List<?>) field(validator, "validStrings"));
            case "CaseInsensitiveValidString":
                return "case-insensitive=" + ((java.util.Set<?>) field(validator, "validStrings")).stream()
                    .map(Object::toString).sorted().collect(Collectors.joining(","));
            case "ValidList":
                String items = joined((List<?>) field(field(validator, "validString"), "validStrings"));
                return (Boolean) field(validator, "isEmptyAllowed") ? "items=" + items : "some-items=" + items;
            case "LambdaValidator":
                // Only the level of gzip has one: a range, or one value outside of it.
                String[] parts = validator.toString().split(" or ");
                return parts[0].replaceAll("[\\[\\]]", "").replace(",...,", ":") + "|" + parts[1];
            case "ThrottledReplicaListValidator":
                return "replicas";
            case "NonEmptyString":
            case "ControllerQuorumVotersValidator":
            case "ControllerQuorumBootstrapServersValidator":
                return "non-empty";
            case "NonNullValidator":
                return "-";
            case "Validator":
                return "offset-reset";
            default:
                throw new IllegalStateException("no rule is known for " + validator.getClass());
        }
    }

    private static String text(Object value) {
        return value == null ? "" : value.toString();
    }

    private static String joined(List<?> values) {
        return values.stream().map(Object::toString).collect(Collectors.joining(","));
    }

    private static Object field(Object of, String name) throws Exception {
        Field field = of.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }
}
