import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import software.amazon.dynamodb.services.local.main.ServerRunner;
import software.amazon.dynamodb.services.local.server.DynamoDBProxyServer;

/**
 * Starts DynamoDB Local on the loopback interface alone; its own command line can only bind every interface.
 * Ends when its standard input closes, so that it never outlives the tests that started it.
 */
public class LoopbackDynamo {
    public static void main(String[] arguments) throws Exception {
        DynamoDBProxyServer server = ServerRunner.createServerFromCommandLineArgs(arguments);
        if (bindToLoopback(server) == 0) {
            throw new IllegalStateException("no connector to bind: this DynamoDB Local is built differently");
        }
        server.start();
        while (System.in.read() != -1) {
            // Nothing is ever said here; only the end matters.
        }
        Runtime.getRuntime().halt(0);
    }

    private static int bindToLoopback(DynamoDBProxyServer server) throws IllegalAccessException {
        int bound = 0;
        for (var field : DynamoDBProxyServer.class.getDeclaredFields()) {
            if (!Server.class.isAssignableFrom(field.getType())) {
                continue;
            }
            field.setAccessible(true);
            for (Connector connector : ((Server) field.get(server)).getConnectors()) {
                ((ServerConnector) connector).setHost("127.0.0.1");
                bound++;
            }
        }
        return bound;
    }
}
