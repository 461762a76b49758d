//! The commands that HTCondor knows, and what people write instead.

/// Commands of submit files, as HTCondor 24.12 and 25 have them.
const KNOWN: &[&str] = &[
    "accounting_group",
    "accounting_group_user",
    "acct_group",
    "acct_group_user",
    "allow_arguments_v1",
    "allow_environment_v1",
    "allowed_execute_duration",
    "allowed_job_duration",
    "append_files",
    "args",
    "arguments",
    "arguments2",
    "aws_access_key_id_file",
    "aws_region",
    "aws_secret_access_key_file",
    "batch_extra_submit_args",
    "batch_id",
    "batch_name",
    "batch_project",
    "batch_queue",
    "batch_runtime",
    "buffer_block_size",
    "buffer_files",
    "buffer_size",
    "checkpoint_destination",
    "checkpoint_exit_code",
    "cmd",
    "common_input_files",
    "compress_files",
    "concurrency_limits",
    "concurrency_limits_expr",
    "container_image",
    "container_is_common",
    "container_service_names",
    "container_target_dir",
    "copy_to_spool",
    "core_size",
    "coresize",
    "cron_day_of_month",
    "cron_day_of_week",
    "cron_hour",
    "cron_minute",
    "cron_month",
    "cron_prep_time",
    "cron_window",
    "cuda_version",
    "dag_node_name",
    "dagman_job_id",
    "dagman_log",
    "deferral_prep_time",
    "deferral_time",
    "deferral_window",
    "delegate_job_gsi_credentials_lifetime",
    "description",
    "disk_usage",
    "docker_image",
    "docker_network_type",
    "docker_override_entrypoint",
    "docker_pull_policy",
    "docker_send_credentials",
    "dont_encrypt_input_files",
    "dont_encrypt_output_files",
    "email_attributes",
    "encrypt_execute_directory",
    "encrypt_input_files",
    "encrypt_output_files",
    "env",
    "environment",
    "environment2",
    "erase_output_and_error_on_restart",
    "err",
    "error",
    "executable",
    "exit_requirements",
    "fetch_files",
    "file_remaps",
    "get_env",
    "getenv",
    "globus_rsl",
    "gpus_maximum_capability",
    "gpus_minimum_capability",
    "gpus_minimum_memory",
    "gpus_minimum_runtime",
    "grid_resource",
    "gs_access_key_id_file",
    "gs_secret_access_key_file",
    "hold",
    "hold_kill_sig",
    "image_size",
    "initial_dir",
    "initialdir",
    "input",
    "interactive_args",
    "interactive_executable",
    "iwd",
    "jar_files",
    "java_vm_args",
    "java_vm_arguments",
    "java_vm_arguments2",
    "job_ad_information_attributes",
    "job_ad_information_attrs",
    "job_batch_name",
    "job_iwd",
    "job_lease_duration",
    "job_machine_attrs",
    "job_machine_attrs_history_length",
    "job_max_vacate_time",
    "job_prio",
    "job_universe",
    "jobset",
    "jobset_name",
    "keep_claim_idle",
    "keystore_alias",
    "keystore_file",
    "kill_sig",
    "kill_sig_timeout",
    "leave_in_queue",
    "leave_job_in_queue",
    "load_profile",
    "local_files",
    "log",
    "log_xml",
    "machine_count",
    "manifest",
    "manifest_dir",
    "match_list_length",
    "materialize_max_idle",
    "max_idle",
    "max_job_retirement_time",
    "max_materialize",
    "max_retries",
    "max_transfer_input_mb",
    "max_transfer_output_mb",
    "memory_usage",
    "mount_under_scratch",
    "my_proxy_host",
    "next_job_start_delay",
    "nice_user",
    "node_count",
    "noop_job",
    "noop_job_exit_code",
    "noop_job_exit_signal",
    "notification",
    "notify_user",
    "on_evict_checks",
    "on_exit_hold",
    "on_exit_hold_reason",
    "on_exit_hold_subcode",
    "on_exit_remove",
    "out",
    "output",
    "output_destination",
    "output_directory",
    "parallel_script_shadow",
    "parallel_script_starter",
    "periodic_hold",
    "periodic_hold_reason",
    "periodic_hold_subcode",
    "periodic_release",
    "periodic_remove",
    "periodic_vacate",
    "post_arguments",
    "post_cmd",
    "pre_arguments",
    "pre_cmd",
    "prefer_gpus",
    "preferences",
    "preserve_relative_paths",
    "primary_unix_group",
    "prio",
    "priority",
    "public_input_files",
    "rank",
    "remote_initialdir",
    "remove_kill_sig",
    "rendezvousdir",
    "request_cpus",
    "request_disk",
    "request_gpus",
    "request_memory",
    "require_gpus",
    "requirements",
    "retry_request_disk",
    "retry_request_disk_increase",
    "retry_request_disk_max",
    "retry_request_memory",
    "retry_request_memory_increase",
    "retry_request_memory_max",
    "retry_until",
    "run_as_owner",
    "s3_access_key_id_file",
    "s3_secret_access_key_file",
    "scitokens_file",
    "send_credential",
    "shell",
    "should_transfer_files",
    "skip_filechecks",
    "skip_if_dataflow",
    "stack_size",
    "starter_debug",
    "starter_log",
    "stderr",
    "stdin",
    "stdout",
    "stream_error",
    "stream_input",
    "stream_output",
    "submit_event_notes",
    "submit_event_user_notes",
    "success_exit_code",
    "suspend_job_at_exec",
    "tool_daemon_args",
    "tool_daemon_arguments",
    "tool_daemon_arguments2",
    "tool_daemon_cmd",
    "tool_daemon_error",
    "tool_daemon_input",
    "tool_daemon_output",
    "transfer_checkpoint_files",
    "transfer_container",
    "transfer_error",
    "transfer_executable",
    "transfer_files",
    "transfer_input",
    "transfer_input_files",
    "transfer_output",
    "transfer_output_files",
    "transfer_output_remaps",
    "transfer_plugins",
    "ulog_execute_attrs",
    "universe",
    "use_oauth_services",
    "use_scitoken",
    "use_scitokens",
    "use_x509userproxy",
    "user_log",
    "vm_checkpoint",
    "vm_disk",
    "vm_macaddr",
    "vm_memory",
    "vm_networking",
    "vm_networking_type",
    "vm_no_output_vm",
    "vm_type",
    "vm_vcpus",
    "vm_vnc",
    "want_ads",
    // `want_campus_pools` and `want_ospool` are CHTC's own: they let a job leave its pool.
    "want_campus_pools",
    "want_graceful_removal",
    "want_io_proxy",
    "want_job_networking",
    "want_name_tag",
    "want_ospool",
    "want_remote_io",
    "when_to_transfer_output",
    "x509userproxy",
];

/// Beginnings of commands whose rest is a name of the user's own.
const OPEN: [&str; 11] = [
    "request_",
    "require_",
    "remote_",
    "ec2_",
    "gce_",
    "azure_",
    "arc_",
    "boinc_",
    "cloud_label_",
    "transform_body_",
    "xen_",
];

/// Parts of commands whose beginning is the name of a service.
const OF_SERVICES: [&str; 3] = ["_oauth_permissions", "_oauth_resource", "_container_port"];

/// Frequent wrong names of commands, with the right ones.
const MISTAKES: [(&str, &str); 24] = [
    ("cpu", "request_cpus"),
    ("cpus", "request_cpus"),
    ("gpus", "request_gpus"),
    ("gpu", "request_gpus"),
    ("memory", "request_memory"),
    ("mem", "request_memory"),
    ("disk", "request_disk"),
    ("request_cpu", "request_cpus"),
    ("request_gpu", "request_gpus"),
    ("request_mem", "request_memory"),
    ("request_ram", "request_memory"),
    ("requests_cpus", "request_cpus"),
    ("requests_memory", "request_memory"),
    ("requests_disk", "request_disk"),
    ("requests_gpus", "request_gpus"),
    ("gpus_min_memory", "gpus_minimum_memory"),
    ("gpus_min_capability", "gpus_minimum_capability"),
    ("gpu_minimum_memory", "gpus_minimum_memory"),
    ("gpu_minimum_capability", "gpus_minimum_capability"),
    ("argument", "arguments"),
    ("transfer_input_file", "transfer_input_files"),
    ("transfer_output_file", "transfer_output_files"),
    ("checkpoint_exitcode", "checkpoint_exit_code"),
    ("transfer_output_remap", "transfer_output_remaps"),
];

/// Attributes that sites and HTCondor look for in a job.
const ATTRIBUTES: [&str; 14] = [
    "WantGPULab",
    "GPUJobLength",
    "is_resumable",
    "JobDurationCategory",
    "ProjectName",
    "WantFlocking",
    "WantGlidein",
    "SingularityImage",
    "WantFTOnCheckpoint",
    "SuccessCheckpointExitCode",
    "wantCHTCStaging",
    "AccountingGroup",
    "JobBatchName",
    "WantParallelScheduling",
];

pub(crate) fn is_known(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let custom = |prefix: &&str| name.strip_prefix(*prefix).is_some_and(|rest| !rest.is_empty());
    // `JobBatchName` and the like: attributes that are commands, too.
    let attribute = ATTRIBUTES.iter().any(|known| known.eq_ignore_ascii_case(&name));
    let of_service = OF_SERVICES.iter().any(|part| name.contains(part));
    if KNOWN.contains(&name.as_str()) || attribute || of_service || command_of(&name).is_some() {
        return true;
    }
    !MISTAKES.iter().any(|(wrong, _)| *wrong == name)
        && OPEN.iter().any(custom)
        && nearest(&name).is_none()
}

/// The command for which the name of a job's attribute stands: `RequestMemory` sets
/// `request_memory`.
fn command_of(name: &str) -> Option<&'static str> {
    let is_same = |known: &&&str| known.contains('_') && known.replace('_', "") == name;
    KNOWN.iter().find(is_same).copied()
}

/// The command or attribute that a statement of this name sets, in lower case.
pub(crate) fn command_name(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    command_of(&lower).map_or(lower, str::to_owned)
}

/// Whether the statement of `name` sets the command `command`.
pub(crate) fn sets(name: &str, command: &str) -> bool {
    name.eq_ignore_ascii_case(command)
        || (!name.contains('_') && name.eq_ignore_ascii_case(&command.replace('_', "")))
}

/// Whether `name` can only be a slip in `right`.
pub(super) fn is_certain(name: &str, right: &str) -> bool {
    MISTAKES.iter().any(|(wrong, _)| *wrong == name)
        || name.replace('_', "") == right.to_ascii_lowercase().replace('_', "")
        || crate::spelling::distance(name, &right.to_ascii_lowercase()) == 1
}

/// Returns the command that was probably meant.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    if let Some((_, right)) = MISTAKES.iter().find(|(wrong, _)| *wrong == name) {
        return Some(right);
    }
    let plain = name.replace(['_', '-'], "");
    let spelled = KNOWN.iter().find(|known| known.replace('_', "") == plain);
    // A short name resembles many others.
    let most = match name.len() {
        0..=5 => return spelled.copied(),
        6..=9 => 1,
        _ => 2,
    };
    let near = |known: &&&str| crate::spelling::distance(known, &name) <= most;
    spelled.or_else(|| KNOWN.iter().find(near)).copied()
}

/// The attribute that was probably meant, when `name` is none that is known.
pub(super) fn nearest_attribute(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    if ATTRIBUTES.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return None;
    }
    let plain = lower.replace('_', "");
    let near = |known: &&&str| {
        let known = known.to_ascii_lowercase();
        known.replace('_', "") == plain
            || (lower.len() > 7 && crate::spelling::distance(&known, &lower) <= 2)
    };
    ATTRIBUTES.iter().find(near).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_lead_to_the_command() {
        for (wrong, right) in [
            ("requests_cpus", Some("request_cpus")),
            ("cpu", Some("request_cpus")),
            ("Request_Memmory", Some("request_memory")),
            ("transfer_input_flies", Some("transfer_input_files")),
            ("transfer-input-files", Some("transfer_input_files")),
            ("lr", None),
            ("learning_rate", None),
        ] {
            assert_eq!(nearest(wrong), right, "{wrong}");
        }
        for known in [
            "executable",
            "Request_CPUs",
            "request_fpgas",
            "JobBatchName",
            "RequestMemory",
            "WhenToTransferOutput",
            "OnExitRemove",
            "TransferInputFiles",
            "box_oauth_permissions",
            "box_oauth_permissions_mine",
            "web_container_port",
            "remote_universe",
            "retry_request_disk",
        ] {
            assert!(is_known(known), "{known}");
        }
        for unknown in
            ["request_cpu", "request_gpu", "request_mem", "requests_cpus", "foo", "request_memmory"]
        {
            assert!(!is_known(unknown), "{unknown}");
        }
        assert_eq!(nearest_attribute("IsResumable"), Some("is_resumable"));
        assert_eq!(nearest_attribute("Is_Resumable"), None);
        assert_eq!(nearest_attribute("wantgpulabs"), Some("WantGPULab"));
        assert_eq!(nearest_attribute("MyOwn"), None);
    }
}
