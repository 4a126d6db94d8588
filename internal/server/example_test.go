package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"weir/configs"
	"weir/internal/server"
)

// A server with the built-in model answers one chat and ends.
func Example() {
	settings := configs.Default()
	settings.Server.Port, settings.Server.AdminAddress = 0, "off"
	s, err := server.New(server.Config{Settings: settings})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-s.Loaded()

	body := []byte(`{"messages": [{"role": "user", "content": "What is TTFT?"}], "temperature": 0}`)
	r, err := http.Post(s.URL()+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	defer r.Body.Close()
	var chat struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.NewDecoder(r.Body).Decode(&chat); err != nil {
		panic(err)
	}
	fmt.Println(chat.Choices[0].Message.Content)

	stop()
	fmt.Println(<-ended)
	// Output:
	// TTFT is the time to first token: how long a client waits from sending its request until the first token of the answer arrives.
	// <nil>
}
