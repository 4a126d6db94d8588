package state

import "syscall"

// networkFileSystems are those whose files several machines open at once, by the numbers of statfs(2), which are Linux's <linux/magic.h> and
// those of the file systems' own sources.
var networkFileSystems = map[uint32]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB", 0x73757245: "Coda", 0x5346414f: "AFS", 0x6b414653: "AFS", 0x00c36400: "Ceph",
	0x0bd00bd0: "Lustre", 0x47504653: "GPFS", 0x19830326: "BeeGFS", 0x01161970: "GFS2", 0x7461636f: "OCFS2",
}

// networkFileSystem names the network file system that a folder is on; empty: it is on none that is known.
func networkFileSystem(dir string) string {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return ""
	}
	return networkFileSystems[uint32(s.Type)] //nolint:gosec // the numbers have 32 bits
}
