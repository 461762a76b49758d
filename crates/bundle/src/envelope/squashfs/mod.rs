mod folders;
