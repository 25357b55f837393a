package localtab

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps the console's Ctrl-C from the process: the tab turns it into an interrupt.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func killGroup(cmd *exec.Cmd) { cmd.Process.Kill() }

// syncDir does nothing: Windows has no such call, NTFS journals the rename.
func syncDir(string) error { return nil }
