package stored_test

import (
	"context"
	"fmt"
	"time"

	"weir/api/conversation"
	"weir/api/edge"
	"weir/api/openai/stored"
)

// A keeper stores a response as it changes, until it is finished.
func ExampleResponses_NewKeeper() {
	memory := conversation.NewMemory(1 << 20)
	s := stored.New(stored.Config{TTL: time.Hour, Store: memory}, edge.NewRunning(), 10*time.Second)
	k := s.NewKeeper(conversation.Response{Tenant: "acme", ID: "resp_1", Input: []byte(`[]`)})
	for _, status := range []string{conversation.InProgress, "completed"} {
		object := stored.WithStatus([]byte(`{"id":"resp_1","status":"queued","error":null}`), status, []byte("null"))
		fmt.Println(k.Keep(status, object))
		r, err := memory.FindResponse(context.Background(), "acme", "resp_1")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(r.Status, r.Finished(), string(r.Object))
	}
	// Output:
	// true
	// in_progress false {"id":"resp_1","status":"in_progress","error":null}
	// true
	// completed true {"id":"resp_1","status":"completed","error":null}
}
