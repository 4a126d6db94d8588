package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockAt is the byte that is locked: one behind the end of any file, since Windows lets no other handle read or write what is locked.
const lockAt = 1 << 30 // times 2^32

// TryLock takes a lock on an open file for as long as the file is open, exclusively or beside other holders; the
// kernel releases the lock of a process that dies. It reports false where somebody else has it.
func TryLock(f *os.File, exclusive bool) (bool, error) {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{OffsetHigh: lockAt})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	if err != nil {
		return false, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return true, nil
}

// SyncFolder has nothing to do: NTFS keeps names in its journal, and flushes no folder.
func SyncFolder(string) error { return nil }

// Inode is not known: os.FileInfo has no number of a file here. Size and time of change tell files apart.
func Inode(os.FileInfo) uint64 { return 0 }
