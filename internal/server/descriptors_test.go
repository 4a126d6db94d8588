package server

import (
	"testing"
)

func TestDescriptorsAreSharedOut(t *testing.T) {
	for _, tc := range []struct{ limit, asked, connections, admin int }{
		{1 << 20, 16384, 16384, 32}, {4096, 16384, 3840, 32}, {1024, 16384, 768, 32}, {1024, 100, 100, 32},
		{256, 16384, 192, 8}, {96, 16384, 64, 4}, {40, 16384, 8, 4}, {20, 16384, 1, 4},
	} {
		f := files{asked: tc.asked}.within(tc.limit)
		if f.connections != tc.connections || f.admin != tc.admin {
			t.Errorf("%d files, %d asked: %d connections, %d for the admin listener", tc.limit, tc.asked, f.connections, f.admin)
		}
	}
}
