gular stage /tmp/.tmpgEpIwR/bundle --to /tmp/.tmpgEpIwR/to --mount -- true
