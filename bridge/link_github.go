package bridge

import (
	"regexp"
	"strings"
)

var (
	githubName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)
	gistID     = regexp.MustCompile(`^[0-9a-f]{5,40}$`)
)

const (
	gistFileNote = "the file named in the gist link cannot be passed on; Colab opens the gist's first notebook"

	privateNote = "the link's access token was dropped; a private repository opens once the user has allowed Colab to read it on GitHub"
)

// githubLink accepts a file's page. Query and fragment are about that page and fall away.
func githubLink(p pastedLink) (Link, error) {
	segs := p.segs
	if len(segs) > 3 && segs[2] == "raw" { // what the page's Raw button links to
		return githubRaw(segs[0], segs[1], segs[3:])
	}
	return githubNotebook(segs)
}

// githubRawLink accepts where the Raw button ends. For a private repository it carries a token,
// which is of no use to Colab.
func githubRawLink(p pastedLink) (Link, error) {
	if len(p.segs) < 3 {
		return githubNotebook(p.segs)
	}
	l, err := githubRaw(p.segs[0], p.segs[1], p.segs[2:])
	if err == nil && pairValue(p.query, "token") != "" {
		l.note = privateNote
	}
	return l, err
}

func githubRaw(owner, repo string, refAndPath []string) (Link, error) {
	// GitHub writes refs/heads/BRANCH or refs/tags/TAG in raw links; Colab wants the name alone.
	if len(refAndPath) > 2 && refAndPath[0] == "refs" && (refAndPath[1] == "heads" || refAndPath[1] == "tags") {
		refAndPath = refAndPath[2:]
	}
	return githubNotebook(append([]string{owner, repo, "blob"}, refAndPath...))
}

// githubNotebook is owner/repo/blob/REF/PATH. Only GitHub knows where a branch ends and the path
// begins, so they stay together.
func githubNotebook(segs []string) (Link, error) {
	if len(segs) < 5 || segs[2] != "blob" || !isNotebookName(segs[len(segs)-1]) {
		return Link{}, refuseLink("it does not lead to a notebook file on GitHub; it needs an .ipynb path",
			"open the .ipynb file on GitHub and copy its link, as in https://github.com/OWNER/REPO/blob/BRANCH/NAME.ipynb")
	}
	if !githubName.MatchString(segs[0]) || !githubName.MatchString(segs[1]) {
		return Link{}, refuseLink("its owner or repository name is not one GitHub allows", "open the .ipynb file on GitHub and copy its link")
	}
	return Link{path: "/github/" + strings.Join(segs, "/")}, nil
}

// gistLink accepts a gist's page; its #file-… is a mangled name and cannot be turned back.
func gistLink(p pastedLink) (Link, error) {
	if len(p.segs) != 2 {
		return gistNotebook(nil)
	}
	l, err := gistNotebook(p.segs)
	if err == nil && strings.HasPrefix(p.fragment, "file-") {
		l.note = gistFileNote
	}
	return l, err
}

// gistNotebook is user/GID, and in Colab's own links user/GID/NAME.ipynb.
func gistNotebook(segs []string) (Link, error) {
	if len(segs) < 2 || len(segs) > 3 || !githubName.MatchString(segs[0]) || !gistID.MatchString(segs[1]) ||
		len(segs) == 3 && !isNotebookName(segs[2]) {
		return Link{}, refuseLink("it does not lead to a gist", "open the gist and copy its link, as in https://gist.github.com/USER/ID")
	}
	return Link{path: "/gist/" + strings.Join(segs, "/")}, nil
}

// nbviewerLink accepts nbviewer's views of GitHub, which Colab opens from their source.
func nbviewerLink(p pastedLink) (Link, error) {
	if len(p.segs) > 0 {
		switch rest := p.segs[1:]; p.segs[0] {
		case "github":
			return githubNotebook(rest)
		case "gist":
			return gistNotebook(rest)
		}
	}
	return Link{}, refuseLink("it is not nbviewer's view of a GitHub file or gist", "give the link of the notebook's source on GitHub")
}
