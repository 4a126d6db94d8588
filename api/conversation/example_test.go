package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weir/api/conversation"
)

// A response names the one that it goes on from, and both together are the conversation. Another tenant has neither.
func Example() {
	ctx, m := context.Background(), conversation.NewMemory(1<<20)
	for _, r := range []conversation.Response{
		{Tenant: "acme", ID: "resp_1", Status: "completed", Input: []byte(`["What is a weir?"]`)},
		{Tenant: "acme", ID: "resp_2", Previous: "resp_1", Status: "completed", Input: []byte(`["And a lock?"]`)},
	} {
		if err := m.KeepResponse(ctx, &r, time.Hour); err != nil {
			fmt.Println(err)
			return
		}
	}
	chain, err := m.Conversation(ctx, "acme", "resp_2")
	for _, r := range chain {
		fmt.Printf("%s %s\n", r.ID, r.Input)
	}
	fmt.Println(err)
	_, err = m.FindResponse(ctx, "other", "resp_2")
	fmt.Println(errors.Is(err, conversation.ErrUnknown), err)
	// Output:
	// resp_1 ["What is a weir?"]
	// resp_2 ["And a lock?"]
	// <nil>
	// true the response is not known
}
