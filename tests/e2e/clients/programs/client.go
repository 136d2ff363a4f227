// METHOD URL [AUTHORIZATION]: with Go's net/http.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	method, url := os.Args[1], os.Args[2]
	var body io.Reader
	if method == "POST" {
		body = strings.NewReader(`{"title": "world"}`)
	}
	request, err := http.NewRequest(method, url, body)
	if err != nil {
		panic(err)
	}
	if len(os.Args) > 3 {
		request.Header.Set("Authorization", os.Args[3])
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode > 299 {
		panic(fmt.Sprint(answer.Status, string(text), err))
	}
	fmt.Println(string(text))
}
