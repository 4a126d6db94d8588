package fleet_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"weir/router"
	"weir/router/fleet"
)

// A model that two other servers compute. One of them fails, and the other one answers.
func Example() {
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusInternalServerError)
	}))
	defer broken.Close()
	sound := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"model":"llama","choices":[{"index":0,"message":{"role":"assistant","content":"A low dam."},"finish_reason":"stop"}]}`)
	}))
	defer sound.Close()

	f, err := fleet.New(fleet.Config{Model: "llama", Sources: []fleet.Source{
		{URL: broken.URL + "/v1", Kind: fleet.OpenAI},
		{URL: sound.URL + "/v1", Kind: fleet.OpenAI},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	for range 2 {
		a, err := f.Send(context.Background(), &router.Call{Path: "/chat/completions", Body: []byte(`{"messages":[{"role":"user","content":"What is a weir?"}]}`)})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(a.Status, string(a.Whole))
		a.Release()
	}
	// Output:
	// 200 {"model":"llama","choices":[{"index":0,"message":{"role":"assistant","content":"A low dam."},"finish_reason":"stop"}]}
	// 200 {"model":"llama","choices":[{"index":0,"message":{"role":"assistant","content":"A low dam."},"finish_reason":"stop"}]}
}
