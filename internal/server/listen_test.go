package server

import (
	"testing"
)

func TestTakenPortSaysTheWayOut(t *testing.T) {
	ln, err := listen("127.0.0.1:0", "")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, err = listen(ln.Addr().String(), "choose another with --port")
	if want := "listen on " + ln.Addr().String() + ": the port is taken; choose another with --port"; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
