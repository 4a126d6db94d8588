package guard

import (
	"runtime"
	"testing"
	"unsafe"
)

func TestWhatHappenedToACallIsTold(t *testing.T) {
	x := Make[uint32](t, 3)
	x[2] = 3
	behind := (*uint32)(unsafe.Add(unsafe.Pointer(&x[2]), 4))
	var read uint32
	calls := map[Outcome]func(){
		Returned: func() { read = x[2] },
		Refused:  func() { read = x[len(x)] },
		Faulted:  func() { read = *behind },
	}
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		delete(calls, Faulted)
	}
	for want, call := range calls {
		if got := Run(call); got != want {
			t.Errorf("a call that is %s is reported as %s", want, got)
		}
	}
	if read != 3 {
		t.Errorf("%d was read last by calls that returned; 3 was there", read)
	}
}
