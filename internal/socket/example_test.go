package socket_test

import (
	"fmt"
	"io"
	"net"

	"weir/internal/socket"
)

// The quick connection takes the place of the one that was dialled.
func Example() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	go func() {
		peer, err := l.Accept()
		if err != nil {
			return
		}
		defer peer.Close()
		_, _ = io.Copy(peer, peer) // an echo
	}()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	c := socket.Quick(dialled)
	defer c.Close()
	fmt.Fprint(c, "data: token\n\n")
	event := make([]byte, len("data: token\n\n"))
	_, err = io.ReadFull(c, event)
	fmt.Printf("%q %v\n", event, err)
	// Output:
	// "data: token\n\n" <nil>
}
