//! Which Python distribution has a module whose name is another.

/// Modules, and the distributions on PyPI that have them, where the names differ: each as the
/// project's own page says. Of several, the one without parts for a desktop.
const DISTRIBUTIONS: [(&str, &str); 44] = [
    ("Bio", "biopython"),
    ("Crypto", "pycryptodome"),
    ("IPython", "ipython"),
    ("OpenGL", "PyOpenGL"),
    ("OpenSSL", "pyOpenSSL"),
    ("PIL", "pillow"),
    ("absl", "absl-py"),
    ("attr", "attrs"),
    ("bs4", "beautifulsoup4"),
    ("cairo", "pycairo"),
    ("charset_normalizer", "charset-normalizer"),
    ("community", "python-louvain"),
    ("cv2", "opencv-python-headless"),
    ("dateutil", "python-dateutil"),
    ("dotenv", "python-dotenv"),
    ("faiss", "faiss-cpu"),
    ("fitz", "PyMuPDF"),
    ("git", "GitPython"),
    ("google.cloud.storage", "google-cloud-storage"),
    ("google.protobuf", "protobuf"),
    ("gridfs", "pymongo"),
    ("imblearn", "imbalanced-learn"),
    ("jwt", "PyJWT"),
    ("lightning_fabric", "lightning-fabric"),
    ("magic", "python-magic"),
    ("mpl_toolkits", "matplotlib"),
    ("osgeo", "gdal"),
    ("pkg_resources", "setuptools"),
    ("psycopg2", "psycopg2-binary"),
    ("pytorch_lightning", "pytorch-lightning"),
    ("ruamel", "ruamel.yaml"),
    ("segmentation_models_pytorch", "segmentation-models-pytorch"),
    ("serial", "pyserial"),
    ("skbio", "scikit-bio"),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("slugify", "python-slugify"),
    ("socks", "PySocks"),
    ("tlz", "toolz"),
    ("umap", "umap-learn"),
    ("usb", "pyusb"),
    ("wx", "wxPython"),
    ("yaml", "PyYAML"),
    ("zmq", "pyzmq"),
];

/// The distribution that has a module, if it has another name than the module's first part.
pub(super) fn distribution_of(module: &str) -> Option<&'static str> {
    let is_within = |name: &str| {
        module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    DISTRIBUTIONS.iter().find(|(name, _)| is_within(name)).map(|(_, distribution)| *distribution)
}
