// METHOD URL [AUTHORIZATION]: with Java's HttpClient.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class Client {
    public static void main(String[] arguments) throws Exception {
        HttpRequest.BodyPublisher body = arguments[0].equals("POST")
            ? HttpRequest.BodyPublishers.ofString("{\"title\": \"world\"}")
            : HttpRequest.BodyPublishers.noBody();
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(arguments[1])).method(arguments[0], body);
        if (arguments.length > 2) {
            request.header("Authorization", arguments[2]);
        }
        if (arguments[0].equals("POST")) {
            request.header("Content-Type", "application/json");
        }
        // Over plain http Java offers HTTP/2 by an `Upgrade`, unless it is set to HTTP/1.1.
        HttpClient client = HttpClient.newBuilder()
            .version(HttpClient.Version.valueOf(System.getProperty("version", "HTTP_2")))
            .build();
        HttpResponse<String> answer = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() > 299) {
            throw new RuntimeException(answer.statusCode() + " " + answer.body());
        }
        System.out.println(answer.body());
    }
}
