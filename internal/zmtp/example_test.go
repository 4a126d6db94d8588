package zmtp_test

import (
	"context"
	"fmt"

	"weir/internal/zmtp"
)

// A router subscribes to the block events that a vLLM publishes.
func Example() {
	c, err := zmtp.Dial(context.Background(), "tcp://vllm-0:5557", zmtp.Config{Socket: zmtp.Sub})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	if err := c.Subscribe("kv-events"); err != nil {
		fmt.Println(err)
		return
	}
	for {
		frames, err := c.Receive() // topic, sequence number, MessagePack
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %d bytes\n", frames[0], len(frames[2]))
	}
}

func ExampleParseEndpoint() {
	fmt.Println(zmtp.ParseEndpoint("tcp://vllm-0:5557"))
	fmt.Println(zmtp.ParseEndpoint("ipc:///run/vllm.sock"))
	// Output:
	// tcp vllm-0:5557 <nil>
	// unix /run/vllm.sock <nil>
}
